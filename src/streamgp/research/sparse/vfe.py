"""Sparse Gaussian processes by variational free energy, in one batch or as a stream of batches: one bound for both.

A batch is learnt together with a `SparsePosterior`: all that earlier batches said, as a Gaussian factor over the
values of the function at inducing inputs (the approximate posterior there over the prior of that time). Bui, Nguyen
and Turner (2017), Section 3 and Appendix A; Titsias (2009) is the case without earlier batches.

Stable form: values at inducing inputs are whitened, b = L u with K_bb = L L', so that no inverse of a posterior
covariance and no difference of precisions is ever taken. The factor of earlier batches is

    exp(-|C' L^-1 b|^2 / 2 + g' C' L^-1 b + constant),

positive semi-definite by construction, zero where nothing is known; C and g of the next one come from a QR
decomposition.
"""

from typing import NamedTuple

from jaxtyping import Bool, Float

from streamgp.bases.kernels import SquaredExponential
from streamgp.numerics.accelerator import Array, jnp
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.linalg import add_diagonal, cholesky, cholesky_solve, log_det, solve_lower
from streamgp.numerics.module import Module

_KERNEL = SquaredExponential()
# Each inducing value has noise of its own, so many eps of its variance, which separates values that lie close
# together. No other point shares it, so that a value at the same place in the next batch is another one, and a
# stream of batches loses that much against all at once.
JITTER = 100.0


@register
class KernelHyperparameters(Module):
    """Hyperparameters of a Gaussian process with a squared-exponential kernel and noise, in natural units."""

    lengthscales: Float[Array, " d"]
    variance: Float[Array, ""]
    noise_var: Float[Array, ""]


@register
class SparsePosterior(Module):
    """The information of earlier batches about the function at `inducing` (see the module's docstring).

    Attributes
    ----------
    inducing
        The inducing inputs of the last batch.
    factor
        L, the Cholesky factor of the prior covariance at `inducing`, under the hyperparameters of the last batch.
    root, mean
        C and g: the precision of L^-1 b is C C', and C g its precision times its mean.
    log_scale
        The constant, which the bound of the next batch subtracts.
    """

    inducing: Float[Array, "m d"]
    factor: Float[Array, "m m"]
    root: Float[Array, "m m"]
    mean: Float[Array, "m e"]
    log_scale: Float[Array, ""]


class Batch(NamedTuple):
    """Rows to learn; those with a false `mask` have no effect as long as they are finite."""

    X: Float[Array, "n d"]
    y: Float[Array, "n e"]
    mask: Bool[Array, " n"]


def empty_posterior(inducing: Float[Array, "m d"], num_outputs: int) -> SparsePosterior:
    """Return the posterior before any batch."""
    m, dtype = len(inducing), inducing.dtype
    zero = jnp.zeros((m, m), dtype)
    return SparsePosterior(
        inducing, jnp.eye(m, dtype=dtype), zero, jnp.zeros((m, num_outputs), dtype), jnp.zeros((), dtype)
    )


def covariance(
    hyperparameters: KernelHyperparameters, X: Float[Array, "n d"], Z: Float[Array, "m d"]
) -> Float[Array, "n m"]:
    """Compute the prior covariance between the rows of `X` and of `Z`."""
    difference = (X[:, None, :] - Z[None, :, :]) / hyperparameters.lengthscales[None, None, :]
    return hyperparameters.variance * _KERNEL.value(difference)


class _Whitened(NamedTuple):
    """A batch and the past as rows of one linear model of u = L^-1 b, each with noise of variance one."""

    factor: Float[Array, "m m"]
    rows: Float[Array, "n_m m"]
    targets: Float[Array, "n_m e"]
    log_scale: Float[Array, ""]


def _whiten(
    hyperparameters: KernelHyperparameters,
    Z: Array,
    batch: Batch,
    past: SparsePosterior,
    alpha: float,
    jitter: float | None,
) -> _Whitened:
    """Whiten a batch and the past; `log_scale` has all terms of the bound but those of the linear model itself."""
    E = batch.y.shape[1]
    own = JITTER * jnp.finfo(Z.dtype).eps if jitter is None else jitter
    L = cholesky(add_diagonal(covariance(hyperparameters, Z, Z), own * hyperparameters.variance))
    A = solve_lower(L, covariance(hyperparameters, Z, batch.X))
    # The variance of each row's value given the inducing values.
    left = jnp.maximum(hyperparameters.variance - jnp.sum(A * A, axis=0), 0.0)
    noise_var = hyperparameters.noise_var + alpha * left
    keep = batch.mask / jnp.sqrt(noise_var)
    rows, targets = keep[:, None] * A.T, keep[:, None] * batch.y
    count = jnp.sum(batch.mask)
    log_scale = -0.5 * E * (count * jnp.log(2.0 * jnp.pi * hyperparameters.noise_var))
    log_scale -= E * jnp.sum(batch.mask * _information_loss(left / hyperparameters.noise_var, alpha))
    # The same for the earlier inducing values, in the coordinates in which the past has unit precision.
    old = past.inducing
    T = solve_lower(L, covariance(hyperparameters, Z, old))
    inner = solve_lower(
        past.factor, add_diagonal(covariance(hyperparameters, old, old), own * hyperparameters.variance) - T.T @ T
    )
    open_ = past.root.T @ solve_lower(past.factor, inner.T) @ past.root
    old_rows = solve_lower(past.factor, T.T).T @ past.root
    old_targets = past.mean
    if alpha:
        F = cholesky(add_diagonal(0.5 * (open_ + open_.T), 1.0))
        old_rows, old_targets = solve_lower(F, old_rows.T).T, solve_lower(F, past.mean)
        log_scale -= 0.5 * E / alpha * log_det(F)
    else:
        log_scale -= 0.5 * E * jnp.trace(open_)
    log_scale += past.log_scale + 0.5 * jnp.sum(past.mean * past.mean)
    return _Whitened(L, jnp.concatenate([rows, old_rows.T]), jnp.concatenate([targets, old_targets]), log_scale)


def _information_loss(ratio: Array, alpha: float) -> Array:
    """Compute log(1 + alpha r) / (2 alpha), and r / 2 in the limit of alpha = 0."""
    return jnp.log1p(alpha * ratio) / (2.0 * alpha) if alpha else 0.5 * ratio


def bound(
    hyperparameters: KernelHyperparameters,
    Z: Float[Array, "m d"],
    batch: Batch,
    past: SparsePosterior,
    alpha: float = 0.0,
    jitter: float | None = None,
) -> Float[Array, ""]:
    """Compute the variational bound on the log density of a batch given those before.

    Summed over batches it is a bound on the log density of all.

    With `alpha` = 0 it is the free energy (Bui, Nguyen and Turner 2017, Eq. 9; Titsias 2009 for the first batch).
    With `alpha` in (0, 1] it is the energy of power expectation propagation (their Appendix A.2), which is no bound.
    `jitter` is relative to the kernel's variance; None is `JITTER` eps.
    """
    w = _whiten(hyperparameters, Z, batch, past, alpha, jitter)
    return w.log_scale - 0.5 * jnp.sum(w.targets * w.targets) - _log_scale(w.rows, w.targets)


def _log_scale(rows: Float[Array, "n m"], targets: Float[Array, "n e"]) -> Float[Array, ""]:
    """Compute log |I + R'R| / 2 - t'R (I + R'R)^-1 R't / 2, the first for each output."""
    root = cholesky(add_diagonal(rows.T @ rows, 1.0))
    fit = solve_lower(root, rows.T @ targets)
    return 0.5 * targets.shape[1] * jnp.asarray(log_det(root)) - 0.5 * jnp.sum(fit * fit)


def absorb(
    hyperparameters: KernelHyperparameters,
    Z: Float[Array, "m d"],
    batch: Batch,
    past: SparsePosterior,
    alpha: float = 0.0,
    jitter: float | None = None,
) -> SparsePosterior:
    """Return the posterior after a batch, at the inducing inputs `Z`."""
    w = _whiten(hyperparameters, Z, batch, past, alpha, jitter)
    Q, R = jnp.linalg.qr(w.rows)
    mean = Q.T @ w.targets
    return SparsePosterior(Z, w.factor, R.T, mean, _log_scale(R, mean))


@register
class FunctionPosterior(Module):
    """The posterior of the function anywhere: mean k(x, Z) weights, covariance k(x, x') - k(x, Z) W'W k(Z, x')."""

    inducing: Float[Array, "m d"]
    weights: Float[Array, "m e"]
    reduction: Float[Array, "m m"]

    def mean(self, hyperparameters: KernelHyperparameters, X: Float[Array, "n d"]) -> Float[Array, "n e"]:
        """Compute the mean of the function."""
        return covariance(hyperparameters, X, self.inducing) @ self.weights

    def variance(self, hyperparameters: KernelHyperparameters, X: Float[Array, "n d"]) -> Float[Array, " n"]:
        """Compute the variance of the function, without noise."""
        reduced = covariance(hyperparameters, X, self.inducing) @ self.reduction.T
        return jnp.maximum(hyperparameters.variance - jnp.sum(reduced * reduced, axis=1), 0.0)

    def covariance(self, hyperparameters: KernelHyperparameters, X: Float[Array, "n d"]) -> Float[Array, "n n"]:
        """Compute the covariance of the function between the rows of `X`."""
        reduced = covariance(hyperparameters, X, self.inducing) @ self.reduction.T
        return covariance(hyperparameters, X, X) - reduced @ reduced.T


def function_posterior(sparse: SparsePosterior) -> FunctionPosterior:
    """Return the posterior of the function, as weights on covariances with b.

    That of b has the mean L (I + CC')^-1 C g and the covariance L (I + CC')^-1 L'.
    """
    m = len(sparse.inducing)
    # I - (I + CC')^-1 = C (I + C'C)^-1 C', and (I + CC')^-1 C = C (I + C'C)^-1
    inner = cholesky(add_diagonal(sparse.root.T @ sparse.root, 1.0))
    inverse = solve_lower(sparse.factor, jnp.eye(m, dtype=sparse.factor.dtype))
    reduction = solve_lower(inner, sparse.root.T) @ inverse
    whitened = sparse.root @ cholesky_solve(inner, sparse.mean)
    return FunctionPosterior(sparse.inducing, inverse.T @ whitened, reduction)
