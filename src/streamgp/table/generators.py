"""Synthetic streams whose rule drifts, for tests and examples."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

Stream = tuple[Float64[np.ndarray, "n d"], Float64[np.ndarray, " n"]]


def switching_sines(
    num_rows: int, rng: np.random.Generator, *, change_points: Sequence[int] = (), noise: float = 0.1
) -> Stream:
    """Generate a sine of one input on [-3, 3] that changes from slow to fast, or back, at each change point.

    Parameters
    ----------
    num_rows
        The length of the stream.
    rng
        Source of the inputs and of the noise.
    change_points
        Rows at which the rule changes from sin(x) to sin(3x), or back.
    noise
        Standard deviation of the Gaussian noise.

    Returns
    -------
    X, y
        Inputs of shape (num_rows, 1) and targets of shape (num_rows,).
    """
    X = rng.uniform(-3.0, 3.0, (num_rows, 1))
    frequency = np.where(_segment(num_rows, change_points) % 2, 3.0, 1.0)
    return X, np.sin(frequency * X[:, 0]) + noise * rng.normal(size=num_rows)


def drifting_linear(
    num_rows: int,
    rng: np.random.Generator,
    *,
    num_inputs: int = 5,
    drift: float = 0.01,
    noise: float = 0.1,
) -> Stream:
    """Generate a linear rule whose coefficients are standard normal at first, and then walk at random.

    Parameters
    ----------
    num_rows
        The length of the stream.
    rng
        Source of the inputs, of the coefficients and of the noise.
    num_inputs
        The number of standard normal inputs.
    drift
        Standard deviation of each coefficient's step from one row to the next; 0 stands still.
    noise
        Standard deviation of the Gaussian noise.

    Returns
    -------
    X, y
        Inputs of shape (num_rows, num_inputs) and targets of shape (num_rows,).
    """
    X = rng.normal(size=(num_rows, num_inputs))
    steps = drift * rng.normal(size=(num_rows, num_inputs))
    coefficients = rng.normal(size=num_inputs) + np.cumsum(steps, axis=0)
    return X, np.einsum("nd,nd->n", X, coefficients) + noise * rng.normal(size=num_rows)


def friedman(
    num_rows: int, rng: np.random.Generator, *, change_points: Sequence[int] = (), noise: float = 1.0
) -> Stream:
    """Generate Friedman's function of ten uniform inputs (1991, Eq. 61), another one from each change point on.

    The target is 10 sin(pi a b) + 20 (c - 1/2)^2 + 10 d + 5 e, where (a, b, c, d, e) are the first five
    inputs; at each change point their roles are reversed, as in the global abrupt drift of Ikonomovska
    et al. (2011, Sec. 5.1).

    Parameters
    ----------
    num_rows
        The length of the stream.
    rng
        Source of the inputs and of the noise.
    change_points
        Rows at which the roles of the inputs are reversed.
    noise
        Standard deviation of the Gaussian noise.

    Returns
    -------
    X, y
        Inputs of shape (num_rows, 10) and targets of shape (num_rows,).
    """
    X = rng.uniform(size=(num_rows, 10))
    turned = (_segment(num_rows, change_points) % 2 == 1)[:, None]
    a, b, c, d, e = np.where(turned, X[:, 4::-1], X[:, :5]).T
    mean = 10.0 * np.sin(np.pi * a * b) + 20.0 * np.square(c - 0.5) + 10.0 * d + 5.0 * e
    return X, mean + noise * rng.normal(size=num_rows)


def sum_of_sines(num_rows: int, rng: np.random.Generator, *, std: float = 1.0, noise: float = 0.1) -> Stream:
    """Generate sin(2 x) + sin(3 x) of one normal input (Lu, Karanikolas and Giannakis 2022, App. A).

    Parameters
    ----------
    num_rows
        The length of the stream.
    rng
        Source of the inputs and of the noise.
    std
        Standard deviation of the input: 1 or 10 in the paper.
    noise
        Standard deviation of the Gaussian noise.

    Returns
    -------
    X, y
        Inputs of shape (num_rows, 1) and targets of shape (num_rows,).
    """
    X = std * rng.normal(size=(num_rows, 1))
    return X, np.sin(2.0 * X[:, 0]) + np.sin(3.0 * X[:, 0]) + noise * rng.normal(size=num_rows)


def switching_gaussian_processes(
    num_rows: int,
    rng: np.random.Generator,
    *,
    lengthscales: Sequence[float] = (0.01, 100.0),
    noise: float = 1.0,
) -> Stream:
    """Draw Gaussian processes one after the other, for equal shares of the rows (Lu et al. 2022, App. A).

    Each is drawn exactly. With m rows in a share, that takes memory in proportion to m^2 and time to m^3.

    Parameters
    ----------
    num_rows
        The length of the stream.
    rng
        Source of the standard normal input, of the functions and of the noise.
    lengthscales
        Of the squared-exponential kernels of variance one, in their order.
    noise
        Standard deviation of the Gaussian noise, above zero.

    Returns
    -------
    X, y
        Inputs of shape (num_rows, 1) and targets of shape (num_rows,).
    """
    X = rng.normal(size=(num_rows, 1))
    draws = []
    for x, lengthscale in zip(np.array_split(X, len(lengthscales)), lengthscales, strict=True):
        # Function and noise in one: with the noise on its diagonal the covariance has a safe factor.
        cov = np.exp(-0.5 * np.square((x - x.T) / lengthscale)) + noise**2 * np.eye(len(x))
        draws.append(rng.multivariate_normal(np.zeros(len(x)), cov, method="cholesky"))
    return X, np.concatenate(draws)


def _segment(num_rows: int, change_points: Sequence[int]) -> np.ndarray:
    """Count the change points at or before each row."""
    return np.searchsorted(np.sort(np.asarray(change_points, dtype=int)), np.arange(num_rows), side="right")
