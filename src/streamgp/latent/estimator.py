"""Rows of many columns as a few latent coordinates, on a stream."""

from typing import Any, Self

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from streamgp.latent.estimator_base import LatentEstimator
from streamgp.table.containers import as_given

WARMUP = 500
# A data set with fewer rows gives a tenth of them, or 100, to the warm-up.
SHORT = 5_000


class StreamingGPLVM(LatentEstimator):
    """An ensemble of Gaussian process latent variable models on a stream: IE-GPLVM.

    Each row y of D columns has a few latent coordinates x, and each column of y is a function of x with a Gaussian
    process prior, plus noise. Seven kernels of different lengthscales learn side by side, each with coordinates of
    its own, and gain weight by how well they explain the rows that come; those of the leading one are returned. A row
    costs the same however many came before, but for the search of its neighbours, which grows with their logarithm.
    Rows are centred by the means of the warm-up and divided by one number for all columns, or standardised.

    Cells that are NaN are missing: a row is embedded by the others.

    Parameters
    ----------
    n_components
        Latent coordinates of a row.
    warmup
        Rows that are gathered and embedded by a fit of all of them before the first is embedded on its own. Default:
        500, or in `fit` of fewer than 5,000 rows a tenth, at least 100.
    standardise
        Whether each column is divided by its own standard deviation in the warm-up: for columns of different units.
        Without, large columns count for more, as is right for the pixels of an image.
    n_features
        Random Fourier features of each kernel.
    dynamics
        How functions may change from row to row: ``static``, ``walk Q`` or ``revert LAMBDA``.
    switch
        Probability per row that another kernel becomes the right one; 0 is the paper's Bayesian model averaging.
    batch_size
        Rows are embedded when they come and learnt so many at a time, but never more than a tenth of those before
        them; 1 is the paper's way.
    n_starts
        Nearest rows from whose coordinates those of a new one are sought; the search goes uphill from the best of
        them. Rows with gaps have ten times as many.
    max_neighbours
        Rows that are remembered for this. When there are more, the older half is forgotten.
    robust
        Whether a cell that does not fit the rest of its row at all is taken to be missing, unless it is the fifth
        such in its column, row after row; and whether bands follow recent errors, however large.
    random_state
        Seed of the features.

    Attributes
    ----------
    embedding_ : ndarray (n, n_components)
        Coordinates of the rows remembered, as they were when the rows were learnt, under the expert that leads now.
    leading_ : int
        The expert whose coordinates are returned. When another one leads, coordinates are others from then on.
    weights_ : ndarray (7,)
        Of the experts, for the next row.
    experts_ : list of dict
        Lengthscale, prior and noise variance (in units of the data, squared, or of standardised columns) and weight
        of each.
    rows_ : int
        Rows so far.
    glitches_ : ndarray (D,)
        Of each column, how many cells were taken for glitches.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Raises
    ------
    ModuleNotFoundError
        If the package ``usearch``, which finds neighbours, is missing: ``pip install 'streamgp[latent]'``.

    Notes
    -----
    Lu, Karanikolas and Giannakis (2022), Section 6 and Algorithm 2, which gives each row the coordinates of the
    expert that explains it best; since experts have coordinates of their own, that scatters rows, and is not done
    here. Coordinates depend on the order of the rows. `partial_fit` holds back the rows of a batch that is not full;
    `fit` does not.

    Examples
    --------
    >>> import numpy as np
    >>> from streamgp import StreamingGPLVM
    >>> angle = np.random.default_rng(0).uniform(0, 6.3, 120)
    >>> Y = np.stack([np.cos(angle), np.sin(angle), np.cos(2 * angle)], axis=1)
    >>> m = StreamingGPLVM(n_features=20).fit(Y)
    >>> Z, std = m.transform(Y[:5], return_std=True)
    >>> Z.shape, std.shape
    ((5, 2), (5, 2))
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        warmup: int | None = None,
        standardise: bool = False,
        n_features: int = 100,
        dynamics: str = "static",
        switch: float = 0.0,
        batch_size: int = 64,
        n_starts: int = 5,
        max_neighbours: int = 100_000,
        robust: bool = True,
        random_state: Any = 0,
    ) -> None:
        self.n_components = n_components
        self.warmup = warmup
        self.standardise = standardise
        self.n_features = n_features
        self.dynamics = dynamics
        self.switch = switch
        self.batch_size = batch_size
        self.n_starts = n_starts
        self.max_neighbours = max_neighbours
        self.robust = robust
        self.random_state = random_state

    # Learning

    def fit(self, X: Any, y: Any = None) -> Self:
        """Forget everything, and learn rows (n, D) in their order; `y` is ignored.

        Raises
        ------
        ValueError
            If `X` is no table of numbers, holds infinity, or a row without any number; nothing is forgotten then.
        """
        rows = self._check_first(X)
        learner = self._new_learner(rows.shape[1], warmup_of(len(rows)))
        self._learn(learner, rows)
        if not learner.is_warmed_up:
            learner.finish_warmup()
        learner.flush()
        # The call stores the names of the columns.
        validate_data(self, as_given(X), skip_check_array=True)
        self._learner = learner
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn more rows; `y` is ignored. However rows are cut into calls, the outcome is the same.

        Raises
        ------
        ValueError
            As in `fit`; what was learnt stays as it is.
        """
        if not self.__sklearn_is_fitted__():
            rows = self._check_first(X)
            self._learner = self._new_learner(rows.shape[1], WARMUP)
            validate_data(self, as_given(X), skip_check_array=True)
        else:
            rows = self._check(X)
        self._learn(self._learner, rows)
        return self

    # Using

    def transform(self, X: Any, return_std: bool = False) -> Any:
        """Return the coordinates of rows under the leading expert; nothing is learnt.

        Parameters
        ----------
        X
            Rows (n, D), NaN where cells are missing.
        return_std
            Also return the standard deviations of the coordinates, by Laplace's approximation: of a row that several
            coordinates explain equally well, it knows of one of them only.

        Returns
        -------
        coordinates, or coordinates and std : ndarray (n, n_components)

        Raises
        ------
        NotFittedError
            Before the end of the warm-up.
        ValueError
            As in `fit`.
        """
        learner, X = self._ready(), self._check(X)
        k, posterior = learner.leading, learner.embed_rows(X).posterior
        if not return_std:
            return posterior.coordinates[:, k]
        var = np.linalg.inv(posterior.precision[:, k])
        return posterior.coordinates[:, k], np.sqrt(np.einsum("nii->ni", var))

    def inverse_transform(self, Z: Any, return_std: bool = False) -> Any:
        """Return the rows that the leading expert expects at coordinates.

        Parameters
        ----------
        Z
            Coordinates (n, n_components).
        return_std
            Also return the standard deviations of the cells, noise included, at exactly these coordinates. Where they
            are those of rows with gaps, use `impute`, which counts their uncertainty as well.

        Returns
        -------
        rows, or rows and std : ndarray (n, D)

        Raises
        ------
        NotFittedError
            Before the end of the warm-up.
        ValueError
            If `Z` is no table of finite numbers of this width.
        """
        learner = self._ready()
        Z = check_array(Z, dtype="float64", input_name="Z")
        if Z.shape[1] != learner.spec.n_components:
            raise ValueError(f"Z: expected rows of {learner.spec.n_components} coordinates, got {Z.shape[1]}")
        mean, var = learner.reconstruct(Z)
        if not return_std:
            return mean
        return mean, np.sqrt(var)

    def impute(self, X: Any, return_std: bool = False) -> Any:
        """Fill the gaps of rows by what the leading expert expects at their coordinates; nothing is learnt.

        Parameters
        ----------
        X
            Rows (n, D), NaN where cells are missing.
        return_std
            Also return standard deviations: zero where there was no gap; elsewhere of the noise, of the function and,
            to first order, of the coordinates.

        Returns
        -------
        rows, or rows and std : ndarray (n, D)

        Raises
        ------
        NotFittedError
            Before the end of the warm-up.
        ValueError
            As in `fit`.
        """
        learner, X = self._ready(), self._check(X)
        k, posterior, gaps = learner.leading, learner.embed_rows(X).posterior, np.isnan(X)
        mean, var = learner.reconstruct(posterior.coordinates[:, k], posterior.precision[:, k])
        filled = np.where(gaps, mean, X)
        return (filled, np.where(gaps, np.sqrt(var), 0.0)) if return_std else filled

    def score_samples(self, X: Any) -> np.ndarray:
        """Return the log density of rows (n,), of their observed cells: low for what is new.

        It is by Laplace's approximation around the coordinates under each expert, mixed by the weights.

        Raises
        ------
        NotFittedError
            Before the end of the warm-up.
        ValueError
            As in `fit`.
        """
        learner, X = self._ready(), self._check(X)
        return learner.embed_rows(X).log_density


def warmup_of(rows: int) -> int:
    """Return the warm-up of a data set of so many rows."""
    return WARMUP if rows >= SHORT else max(round(WARMUP * rows / SHORT), 100)
