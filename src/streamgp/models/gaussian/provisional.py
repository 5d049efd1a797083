"""The experts of the warm-up: those with default hyperparameters, and fits to the rows so far once there are some."""

from dataclasses import replace

import numpy as np

from streamgp.bases import BASES, Basis, Fourier, Linear
from streamgp.filters.dynamics import parse
from streamgp.filters.noise import parse as parse_noise
from streamgp.models.base import WarmupRows
from streamgp.models.expert import Expert
from streamgp.models.gaussian.first_fits import first_fits
from streamgp.models.gaussian.model import Ensemble, ensemble
from streamgp.numerics import keys
from streamgp.numerics.standardise import Standardiser
from streamgp.weights import SoftBayes, fixed_share, mixture

# Lengthscales in units of sqrt(D) standard deviations, noise variances to begin with, what the noise does, what the
# plane does, and the chance per row that another expert is the best.
PROVISIONAL_LENGTHSCALES = (0.5, 1.0, 2.0)
PROVISIONAL_NOISE_VARS = (1.0, 0.1, 0.01)
PROVISIONAL_NOISE = (
    *("constant", "adaptive 0.98", "adaptive 0.8"),
    *("adaptive 0.8 ar 0.5", "adaptive 0.8 ar 0.9", "adaptive 0.9 ar 0.99"),
)
PROVISIONAL_DYNAMICS = ("static", "walk 0.01", "walk 0.1")
PROVISIONAL_SWITCH = 0.01
PROVISIONAL_FEATURES = 100
FEW_ROWS_WIDER = 6.0  # two rows: seven times as wide; four: twice; eight: by a third


def provisional_ensemble(
    rows: WarmupRows,
    seed: int,
    guarded: bool = False,
    recalibrated: bool = False,
    fits: bool = False,
) -> Ensemble:
    """Build the ensemble that predicts the next rows of the warm-up, from the standardised rows so far.

    Its experts' noise finds its level by itself, and the plane also moves: that covers walks and slow drifts. With
    `fits` it has the first fits as well.
    """
    num_inputs, num_outputs = rows.X.shape[1], rows.y.shape[1]
    experts = provisional_experts(num_inputs, seed)
    if fits:
        experts += first_fits(rows, seed)
    kinds = parse_noise(PROVISIONAL_NOISE)
    # One expert at a time, or a blend: where the noise depends on the inputs, several levels together are what fits.
    k = len(experts) * len(kinds)
    rule = mixture({"fixed share": fixed_share(k, PROVISIONAL_SWITCH), "Soft-Bayes": SoftBayes()})
    return ensemble(
        experts,
        rule,
        num_outputs=num_outputs,
        time_unit=rows.time_unit,
        kinds=kinds,
        guarded=guarded,
        recalibrated=recalibrated,
    )


def provisional_experts(num_inputs: int, seed: int) -> list[Expert]:
    """Return the first experts of `provisional_ensemble`, those with default hyperparameters."""
    plane = Linear(num_inputs)
    waves: list[Basis] = []
    box = np.stack([np.zeros(num_inputs), np.ones(num_inputs)])
    for i, scale in enumerate(PROVISIONAL_LENGTHSCALES):
        key = keys.fold_in(keys.key(seed), i)
        start = scale * float(np.sqrt(num_inputs))
        waves.append(Fourier.from_data(box, num_features=PROVISIONAL_FEATURES, start=start, key=key))
    pairs = [(plane, name) for name in PROVISIONAL_DYNAMICS] + [(basis, "static") for basis in waves]
    return [
        Expert(basis, np.asarray(1.0), np.asarray(noise_var), parse(name), f"provisional {_name(basis)}: {name}")
        for basis, name in pairs
        for noise_var in PROVISIONAL_NOISE_VARS
    ]


def _name(basis: Basis) -> str:
    return next(name for name, cls in BASES.items() if isinstance(basis, cls))


def provisional_scale(targets: Standardiser) -> Standardiser:
    """Widen the scale of few rows: what they say of it is Student's t with as many degrees of freedom.

    Where all targets are the same there is no scale yet but the number itself.
    """
    n, mean = float(targets.count), np.asarray(targets.mean)
    scale = np.where(targets.m2 > 0.0, targets.scale, np.maximum(np.abs(mean), 1.0))
    if n > 1.0:
        scale = scale * (1.0 + FEW_ROWS_WIDER * (n - 1.0) ** -1.5)
    return replace(targets, m2=n * np.square(scale))
