"""Scores of Gaussians and of samples."""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from streamgp.evaluation.metrics.shapes import positive, together
from streamgp.numerics import mixtures, student_t
from streamgp.numerics.crps import mixture_crps


def crps_gaussian(mean: ArrayLike, std: ArrayLike, y: ArrayLike) -> Float[np.ndarray, "..."]:
    """Return the continuous ranked probability score of Gaussians (Gneiting et al. 2005, Eq. 5).

    Parameters
    ----------
    mean, std, y
        Means, standard deviations and targets, (n,).

    Raises
    ------
    ValueError
        If a standard deviation is not above 0, or shapes differ.
    """
    mean, std, y = together(mean=mean, std=std, y=y)
    positive("std", std)
    # Targets very far away overflow.
    with np.errstate(over="ignore"):
        # The squares of these numbers of standard deviations do not overflow.
        off = ((y - mean) / std).ravel()
        zeros = np.zeros((y.size, 1, 1))
        unit = mixtures.flatten(zeros[..., 0], zeros, zeros + 1.0, None)
        found = mixture_crps(unit, off, mixtures.evaluate(unit, off))
    return np.asarray(std * np.asarray(found).reshape(y.shape))


def crps_ensemble(samples: ArrayLike, y: ArrayLike) -> Float[np.ndarray, "..."]:
    """Return the continuous ranked probability score of the distributions that put equal weight on each sample.

    Of one sample it is the absolute error. Of m draws it is on average above the score of the distribution that they
    come from by 1 / (2 m) of the mean distance of two of them: compare equal numbers.

    Parameters
    ----------
    samples
        Draws or members of an ensemble (n, m), as `sample` returns them.
    y
        Targets, (n,).

    Raises
    ------
    ValueError
        If there is no sample, or the shapes do not belong together.

    Notes
    -----
    E|X - y| - E|X - X'| / 2 (Gneiting and Raftery 2007, Eq. 21), the second term from the sorted samples:
    sum over i of (2 i - m - 1) x_i / m^2.
    """
    x, y = np.asarray(samples, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if x.shape[:-1] != y.shape or x.ndim != y.ndim + 1 or not x.shape[-1]:
        raise ValueError(
            f"samples: expected one more axis than y, of shape {y.shape}, for the samples of each, got {x.shape}"
        )
    m = x.shape[-1]
    # Few digits are lost with the target as the origin.
    off = np.sort(x - y[..., None], axis=-1)
    spread = (off * (2.0 * np.arange(1, m + 1) - m - 1.0)).sum(-1) / m**2
    return np.abs(off).mean(-1) - spread


def energy_score(samples: ArrayLike, y: ArrayLike) -> Float[np.ndarray, "..."]:
    """Return the energy score of draws of several numbers at once: of a path, or of several targets.

    Of a single number it is the `crps_ensemble`. Where the numbers have different units, scale them first.

    Parameters
    ----------
    samples
        Draws (..., m, d).
    y
        What came, (..., d).

    Raises
    ------
    ValueError
        If there is no sample, or the shapes do not belong together.

    Notes
    -----
    E||X - y|| - E||X - X'|| / 2 (Gneiting and Raftery 2007, Eq. 22).
    """
    x, y = np.asarray(samples, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if x.ndim != y.ndim + 1 or not y.ndim or x.shape[:-2] + x.shape[-1:] != y.shape or not x.shape[-2]:
        raise ValueError(f"samples: expected shape (..., m, d) with y of shape (..., d), got {x.shape} and {y.shape}")
    off = np.linalg.norm(x - y[..., None, :], axis=-1).mean(-1)
    between = sum(np.linalg.norm(x - each[..., None, :], axis=-1).mean(-1) for each in np.moveaxis(x, -2, 0))
    return np.asarray(off - 0.5 * between / x.shape[-2])


def log_score_gaussian(mean: ArrayLike, std: ArrayLike, y: ArrayLike) -> Float[np.ndarray, "..."]:
    """Return the negative log densities of targets under Gaussians, in nats (Good 1952).

    Its mean is minus the `pll` of an evaluation. It depends on the units of the targets.

    Parameters
    ----------
    mean, std, y
        Means, standard deviations and targets, (n,).

    Raises
    ------
    ValueError
        If a standard deviation is not above 0, or shapes differ.
    """
    mean, std, y = together(mean=mean, std=std, y=y)
    positive("std", std)
    # Targets very far away overflow.
    with np.errstate(over="ignore"):
        # The square of this ratio is finite where that of a small `std` would be zero.
        off = (y - mean) / std
        return np.asarray(np.log(std) - student_t.log_density(off, np.ones_like(off), None))
