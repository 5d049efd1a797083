"""Experts fitted to the rows so far, long before the warm-up ends: they join the provisional ones.

What they can draw is what the final fit can, but the searches are short, and no start is tried twice. Their
hyperparameters have seen the rows that then say what they are worth. Of few hyperparameters that matters little once
there are rows enough for each input; the rule that weighs them forgets within a hundred rows.
"""

from collections.abc import Iterator

import numpy as np

from streamgp.bases import BASES
from streamgp.models.base import WarmupRows
from streamgp.models.expert import Expert
from streamgp.models.fitting.gaussian_evidence import fit_basis
from streamgp.models.gaussian.warmup import dynamics_of
from streamgp.models.spec import Spec
from streamgp.numerics import keys

# Before so many rows, and so many for each input, nothing is fitted.
FEWEST_ROWS = 32
ROWS_PER_INPUT = 2
# Each basis with its features, the start of its lengthscales, and the steps of its search: more would cost more, and gain
# nothing. Centres see what few rows show; from `MANY_ROWS` on trained frequencies see more, and overfit no longer.
_ANY = {"linear": (1, 1.0, 15), "hilbert": (100, 0.3, 15)}
FEW = _ANY | {"nystrom": (100, 3.0, 15)}
MANY = _ANY | {"fourier-trained": (200, 1.0, 25)}
MANY_ROWS = 256
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
    wanted = FEW if len(rows.X) < MANY_ROWS else MANY
    for position, (name, (features, start, steps)) in enumerate(wanted.items()):
        key = keys.fold_in(keys.fold_in(keys.key(seed), _FIRST_FITS_KEY), position)
        basis = BASES[name].from_data(rows.X, num_features=features, start=start, key=key, y=rows.y)
        fit = fit_basis(basis, rows.X, rows.y, start, max_steps=steps)
        if not np.isfinite(fit.gain):
            continue
        prior_var, noise_var = np.asarray(fit.prior_var), np.asarray(fit.noise_var)
        for _, title, dynamics in dynamics_of(_PACES, f"first fit {name}", fit.basis, fit.prior_var, rows.X):
            yield Expert(fit.basis, prior_var, noise_var, dynamics, title)
