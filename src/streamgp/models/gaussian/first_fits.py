"""Experts fitted to the rows so far, long before the warm-up ends: they join the provisional ones.

What they can draw is what the final fit can, but the searches are short, and no start is tried twice. Their
hyperparameters have seen the rows that then say what they are worth. Of few hyperparameters that matters little once
there are rows enough for each input; the rule that weighs them forgets within a hundred rows.
"""

from collections.abc import Iterator

import numpy as np

from streamgp.bases import Basis, HilbertSpace, Linear, Nystrom, TrainedFourier
from streamgp.bases.base import input_ranges
from streamgp.models.base import WarmupRows
from streamgp.models.expert import Expert
from streamgp.models.fitting.gaussian_evidence import MAX_STEPS, fit_basis
from streamgp.models.gaussian.warmup import dynamics_of
from streamgp.models.spec import Spec
from streamgp.numerics import keys
from streamgp.numerics.keys import Key

# Before so many rows, and so many for each input, nothing is fitted.
FEWEST_ROWS = 32
ROWS_PER_INPUT = 2
MANY_ROWS = 256  # from which on frequencies are trained: with fewer they overfit, and centres at all rows do better
FEW_STEPS = 15  # of a search: more would cost more, and gain nothing; that of frequencies has a limit of its own
FEATURES, WAVES = 100, 200
_PACES = Spec("first fits", dynamics=("static", "walk 0.001", "revert 0.95"))
_FIRST_FITS_KEY = 3_000  # among the keys that number bases and starts


def first_fits(rows: WarmupRows, seed: int) -> list[Expert]:
    """Return experts fitted to standardised rows; none while these are few."""
    n, num_inputs = rows.X.shape
    if n < max(FEWEST_ROWS, ROWS_PER_INPUT * num_inputs):
        return []
    return list(_fitted(rows, seed))


def _fitted(rows: WarmupRows, seed: int) -> Iterator[Expert]:
    """Yield each basis at each pace, but those whose evidence is no number, as that of a constant target."""
    for name, basis, steps in _to_fit(rows.X, keys.fold_in(keys.key(seed), _FIRST_FITS_KEY)):
        fit = fit_basis(basis, rows.X, rows.y, max_steps=steps)
        if not np.isfinite(fit.gain):
            continue
        prior_var, noise_var = np.asarray(fit.prior_var), np.asarray(fit.noise_var)
        for _, title, dynamics in dynamics_of(_PACES, f"first fit {name}", fit.basis, fit.prior_var, rows.X):
            yield Expert(fit.basis, prior_var, noise_var, dynamics, title)


def _to_fit(X: np.ndarray, key: Key) -> Iterator[tuple[str, Basis, int]]:
    """Yield the bases, with their names and the steps of their searches."""
    yield "linear", Linear(X.shape[1]), FEW_STEPS
    yield "hilbert", HilbertSpace.from_data(X, num_features=FEATURES, start=0.3, key=key), FEW_STEPS
    if len(X) < MANY_ROWS:  # a Gaussian process over the rows
        yield "nystrom", Nystrom(np.unique(X, axis=0), 3.0 * input_ranges(X)), FEW_STEPS
    else:
        yield "fourier-trained", TrainedFourier.from_data(X, num_features=WAVES, start=1.0, key=key), MAX_STEPS
