"""Rows of many entries as a few coordinates, on a stream."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, check_array, check_random_state
from sklearn.utils.validation import validate_data

from streamgp import checkpoint
from streamgp.data.cells import LARGEST
from streamgp.latent import LatentLearner, LatentSpec
from streamgp.progress import progress_bar

WARMUP = 500
_AS_NUMBERS: Any = {"dtype": "float64", "ensure_all_finite": "allow-nan"}
SHORT = 5_000  # rows; a shorter data set gives a tenth of them, or 100, to the warm-up


class StreamingGPLVM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """An ensemble of Gaussian process latent variable models on a stream: IE-GPLVM.

    Each row y of D entries has a place x of a few coordinates, and each entry of y is a function of x with a Gaussian
    process prior, plus noise. Seven kernels of different lengthscales learn side by side, each with places of its
    own, and gain weight by how well they explain the rows that come; those of the leading one are given out. A row
    costs the same however many came before, but for the search of its neighbours, which grows with their logarithm.
    Rows are centred by the means of the warm-up and divided by one number for all entries, or standardised.

    Entries that are NaN are missing: a row is placed by those that are there.

    Parameters
    ----------
    n_components
        Coordinates of a place.
    warmup
        Rows that are gathered and placed by a fit of all of them before the first is placed on its own. Default: 500,
        or in `fit` of fewer than 5,000 rows a tenth, at least 100.
    standardise
        Whether each entry is divided by its own standard deviation in the warm-up: for entries of different units.
        Without, large entries count for more, as is right for the pixels of an image.
    n_features
        Random Fourier features of each kernel.
    dynamics
        How functions may change from row to row: ``static``, ``walk Q`` or ``revert LAMBDA``.
    switch
        Probability per row that another kernel becomes the right one; 0 is the paper's Bayesian model averaging.
    batch_size
        Rows are placed when they come and learnt so many at a time, but never more than a tenth of those before
        them; 1 is the paper's way.
    n_starts
        Nearest rows from whose places the place of a new one is sought; the search goes uphill from the best of them.
        Rows with gaps have ten times as many.
    max_neighbours
        Rows that are remembered for this. When there are more, the older half is forgotten.
    robust
        Whether a cell that is absurd beside the rest of its row is taken to be missing, unless it is the fifth such
        in its column, row after row; and whether bands follow the errors of late, however large.
    random_state
        Seed of the features.

    Attributes
    ----------
    embedding_ : ndarray (n, n_components)
        Places of the rows remembered, as they were given when the rows were learnt, under the expert that leads now.
    leading_ : int
        The expert whose places are given out. When another one takes the lead, coordinates are others from then on.
    weights_ : ndarray (7,)
        Of the experts, for the next row.
    experts_ : list of dict
        Lengthscale, prior and noise variance (in units of the data, squared, or of standardised entries) and weight
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
    Lu, Karanikolas and Giannakis (2022), Section 6 and Algorithm 2, which gives each row the place of the expert that
    explains it best; since experts have coordinates of their own, that scatters rows, and is not done here. Places
    hang on the order of the rows. `partial_fit` holds back the rows of a batch that is not full; `fit` does not.

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

    n_features_in_: int
    feature_names_in_: np.ndarray

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
            If `X` is no table of numbers, holds infinity, or a row in which nothing is there; nothing is forgotten
            then.
        """
        rows = self._first(X)
        learner = self._new_learner(rows.shape[1], warmup_of(len(rows)))
        self._learn(learner, rows)
        if not learner.warmed_up:
            learner.begin()
        learner.settle()
        validate_data(self, X, skip_check_array=True)  # remembers the names of the columns
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
            rows = self._first(X)
            self._learner = self._new_learner(rows.shape[1], WARMUP)
            validate_data(self, X, skip_check_array=True)
        else:
            rows = self._check(X)
        self._learn(self._learner, rows)
        return self

    # Using

    def transform(self, X: Any, return_std: bool = False) -> Any:
        """Places of rows under the leading expert; nothing is learnt.

        Parameters
        ----------
        X
            Rows (n, D), NaN where entries are missing.
        return_std
            Also give the standard deviations of the places' coordinates, by Laplace's approximation: of rows that
            several places explain alike, it knows of one of them only.

        Returns
        -------
        places, or places and std : ndarray (n, n_components)

        Raises
        ------
        NotFittedError
            Before the end of the warm-up.
        ValueError
            As in `fit`.
        """
        learner, X = self._ready(), self._check(X)
        k, found = learner.leading, learner.place(X).found
        if not return_std:
            return found.places[:, k]
        var = np.linalg.inv(found.precision[:, k])
        return found.places[:, k], np.sqrt(np.einsum("nii->ni", var))

    def inverse_transform(self, Z: Any, return_std: bool = False) -> Any:
        """Rows that the leading expert expects at places, such as those of rows whose gaps are to be filled.

        Parameters
        ----------
        Z
            Places (n, n_components).
        return_std
            Also give the standard deviations of the entries, noise included, at exactly this place. Where places are
            those of rows with gaps, `impute` knows more.

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
            raise ValueError(f"Z: expected places of {learner.spec.n_components} coordinates, got {Z.shape[1]}")
        mean, var = learner.reconstruct(Z)
        if not return_std:
            return mean
        return mean, np.sqrt(var)

    def impute(self, X: Any, return_std: bool = False) -> Any:
        """Rows with their gaps filled in by what the leading expert expects at their places; nothing is learnt.

        Parameters
        ----------
        X
            Rows (n, D), NaN where entries are missing.
        return_std
            Also give standard deviations: zero where there was no gap; elsewhere of the noise, of the function and,
            to first order, of the place.

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
        k, found, gaps = learner.leading, learner.place(X).found, np.isnan(X)
        mean, var = learner.reconstruct(found.places[:, k], found.precision[:, k])
        filled = np.where(gaps, mean, X)
        return (filled, np.where(gaps, np.sqrt(var), 0.0)) if return_std else filled

    def score_samples(self, X: Any) -> np.ndarray:
        """Log density of rows (n,), of their entries that are there: low for what is new.

        Of each expert by Laplace's approximation around the place, mixed by the weights.

        Raises
        ------
        NotFittedError
            Before the end of the warm-up.
        ValueError
            As in `fit`.
        """
        learner, X = self._ready(), self._check(X)
        return learner.place(X).log_density

    # What has been learnt

    @property
    def embedding_(self) -> np.ndarray:
        """Places of the rows remembered, as they were given, under the expert that leads now."""
        learner = self._ready()
        return learner.neighbours_places[:, learner.leading].copy()

    @property
    def leading_(self) -> int:
        """The expert whose places are given out."""
        return self._ready().leading

    @property
    def weights_(self) -> np.ndarray:
        """Of the experts, for the next row."""
        return np.exp(self._ready().log_weights)

    @property
    def experts_(self) -> list[dict[str, float]]:
        """One dictionary per expert."""
        return self._ready().experts

    @property
    def rows_(self) -> int:
        """Rows so far."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(self._unfitted())
        return self._learner.rows

    @property
    def glitches_(self) -> np.ndarray:
        """How many cells of each column were taken for glitches."""
        return self._ready().glitches.copy()

    # Keeping

    def save(self, path: str | Path) -> None:
        """Write a checkpoint directory (JSON and safetensors); an earlier one there is replaced only at the end.

        It holds the rows that are remembered, in single precision.
        """
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(self._unfitted())
        tree = {
            "params": self.get_params() | {"random_state": self._learner.spec.seed},
            "learner": self._learner.to_tree(),
            "feature_names": list(getattr(self, "feature_names_in_", [])),
        }
        checkpoint.save(path, tree, {"kind": type(self).__name__, "rows": self._learner.rows})

    @classmethod
    def of(cls, learner: LatentLearner, feature_names: Sequence[str] = ()) -> Self:
        """The estimator around a learner that has seen rows of these columns."""
        settings: dict[str, Any] = vars(learner.spec) | {"random_state": learner.spec.seed}
        estimator = cls(**{name: settings[name] for name in cls().get_params()})
        estimator._learner = learner
        estimator.n_features_in_ = learner.num_entries
        if feature_names:
            estimator.feature_names_in_ = np.asarray(feature_names, dtype=object)
        return estimator

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a checkpoint; the estimator goes on exactly where it was saved.

        Raises
        ------
        CheckpointError
            If the checkpoint is damaged or not of this kind; the message says what is wrong.
        """
        tree = checkpoint.load_of(path, cls)
        estimator = cls.of(LatentLearner.from_tree(tree["learner"]), tree["feature_names"])
        return estimator.set_params(**tree["params"])

    # Inner works

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learner")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return self._learner.spec.n_components

    def _unfitted(self) -> str:
        return f"This {type(self).__name__} has not seen any row yet: call partial_fit or fit before this."

    def _ready(self) -> LatentLearner:
        """The learner, after its warm-up."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(self._unfitted())
        if not self._learner.warmed_up:
            raise NotFittedError(
                f"This {type(self).__name__} has {self._learner.rows} of the {self._learner.spec.warmup} rows of its "
                f"warm-up: go on with partial_fit, or choose a shorter warmup."
            )
        return self._learner

    def _first(self, X: Any) -> np.ndarray:
        """Rows of any columns; what the estimator knows of its own stays as it is."""
        return self._checked(check_array(X, **_AS_NUMBERS, estimator=self))

    def _check(self, X: Any) -> np.ndarray:
        """Rows of the columns that were there from the start."""
        return self._checked(validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan"))

    def _checked(self, X: Any) -> np.ndarray:
        empty = np.flatnonzero(np.isnan(X).all(axis=1))
        if len(empty):
            raise ValueError(f"X: expected a number in every row, but row {empty[0]} has none; remove such rows")
        if (np.abs(X) > LARGEST).any():  # not where it is NaN
            row, column = np.argwhere(np.abs(X) > LARGEST)[0]
            raise ValueError(
                f"X: expected numbers of at most {LARGEST:g}, got {X[row, column]:g} in row {row}, column {column}; "
                f"remove such rows, or put NaN there"
            )
        return X

    def _new_learner(self, num_entries: int, default_warmup: int) -> LatentLearner:
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31 - 1)
        settings: dict[str, Any] = {**self.get_params(), "seed": int(seed)}
        del settings["random_state"]
        if self.warmup is None:
            settings["warmup"] = default_warmup
        spec = LatentSpec(**settings)
        return LatentLearner(spec, num_entries)

    def _learn(self, learner: LatentLearner, X: np.ndarray) -> None:
        done = 0
        with progress_bar("rows", len(X)) as bar:
            for part in learner.learn(X):
                done += len(part.log_weights)
                bar.at(done)


def warmup_of(rows: int) -> int:
    """The warm-up of a data set of so many rows."""
    return WARMUP if rows >= SHORT else max(round(WARMUP * rows / SHORT), 100)
