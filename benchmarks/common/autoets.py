"""statsforecast's automatic models, one series at a time, refitted every `REFIT` rows: Gaussians of the next row."""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float

REFIT = 24  # rows
LEVELS = (80, 95)
# The half widths of these bands for a Gaussian, in standard deviations.
HALF_WIDTHS = (1.2815515655446004, 1.959963984540054)


def gaussian_of(bands: dict[str, Any]) -> tuple[Float[np.ndarray, " h"], Float[np.ndarray, " h"]]:
    """Return mean and standard deviation of the Gaussian that fits the two bands of a forecast best.

    Without Box-Cox AutoETS and AutoARIMA forecast Gaussians, so that both bands say the same.
    """
    low, high = (np.stack([np.asarray(bands[f"{end}-{level}"], float) for level in LEVELS]) for end in ("lo", "hi"))
    width = np.array(HALF_WIDTHS)[:, None]
    std = (0.5 * (high - low) / width).mean(0)
    return 0.5 * (low + high).mean(0), np.maximum(std, 1e-9)


def one_ahead(
    model: Any, y: Float[np.ndarray, " n"], first: int, window: int
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return mean and standard deviation of every row from `first` on, each from the rows before it; NaN of others.

    The model is chosen and fitted anew to the last `window` rows every `REFIT` rows; in between what was fitted goes
    on with the new rows (`forward`).
    """
    mean, std = np.full(len(y), np.nan), np.full(len(y), np.nan)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for i in range(first, len(y)):
            seen = y[max(i - window, 0) : i]
            if (i - first) % REFIT == 0:
                model.fit(seen)
            found = gaussian_of(model.forward(seen, h=1, level=list(LEVELS)))
            mean[i], std[i] = found[0][0], found[1][0]
    return mean, std
