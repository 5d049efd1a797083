"""Sparse Gaussian processes by variational free energy, in one batch or as a stream of batches: one bound for both.

A batch is learnt together with a `Site`: all that earlier batches said, as a Gaussian factor over the values of the
function at inducing inputs (the approximate posterior there over the prior there, of then). Bui, Nguyen and Turner
(2017), Section 3 and Appendix A; Titsias (2009) is the case of a site that says nothing.

Stable form: values at inducing inputs are whitened, b = L u with K_bb = L L', so that no inverse of a posterior
covariance and no difference of precisions is ever taken. The factor of earlier batches is

    exp(-|C' L^-1 b|^2 / 2 + g' C' L^-1 b + constant),

positive semi-definite by construction, zero where nothing is known; C and g of the next one come from a QR
decomposition.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from streamgp.checkpoint.encoding import register
from streamgp.kernels import SquaredExponential
from streamgp.numerics.linalg import add_diagonal, cholesky, cholesky_solve, log_det, solve_lower

_KERNEL = SquaredExponential()
# Each inducing value has noise of its own, so many eps of its variance: it keeps values apart that lie close
# together. No other point sees it, so that a value at the same place in the next batch is another one, and a stream
# of batches loses that much against all at once.
JITTER = 100.0


@register
class Hyper(eqx.Module):
    """Hyperparameters of a Gaussian process with a squared-exponential kernel and noise, in natural units."""

    lengthscales: Float[Array, " d"]
    variance: Float[Array, ""]
    noise_var: Float[Array, ""]


@register
class Site(eqx.Module):
    """What earlier batches said of the function at `inducing`; see the module's docstring.

    Attributes
    ----------
    inducing
        The inducing inputs of then.
    factor
        L, the Cholesky factor of the prior covariance at `inducing`, under the hyperparameters of then.
    root, mean
        C and g: the precision of L^-1 b is C C', and C g its precision times its mean.
    log_scale
        The constant: what the bound of earlier batches gives back when the next is taken with them.
    """

    inducing: Float[Array, "m d"]
    factor: Float[Array, "m m"]
    root: Float[Array, "m m"]
    mean: Float[Array, "m e"]
    log_scale: Float[Array, ""]


class Batch(NamedTuple):
    """Rows to learn; those with a false `mask` count for nothing, whatever they hold, as long as it is finite."""

    X: Float[Array, "n d"]
    y: Float[Array, "n e"]
    mask: Bool[Array, " n"]


def no_site(inducing: Float[Array, "m d"], num_outputs: int) -> Site:
    """The site before any batch."""
    m, dtype = len(inducing), inducing.dtype
    zero = jnp.zeros((m, m), dtype)
    return Site(inducing, jnp.eye(m, dtype=dtype), zero, jnp.zeros((m, num_outputs), dtype), jnp.zeros((), dtype))


def covariance(hyper: Hyper, X: Float[Array, "n d"], Z: Float[Array, "m d"]) -> Float[Array, "n m"]:
    """The prior covariance between the rows of `X` and of `Z`."""
    difference = (X[:, None, :] - Z[None, :, :]) / hyper.lengthscales[None, None, :]
    return hyper.variance * _KERNEL.value(difference)


class _Whitened(NamedTuple):
    """A batch and a site as rows of one linear model of u = L^-1 b, each with noise of variance one."""

    factor: Float[Array, "m m"]
    rows: Float[Array, "n_m m"]
    targets: Float[Array, "n_m e"]
    log_scale: Float[Array, ""]


def _whitened(hyper: Hyper, Z: Array, batch: Batch, site: Site, alpha: float, jitter: float | None) -> _Whitened:
    """`log_scale` is every term of the bound but those of the linear model itself."""
    E = batch.y.shape[1]
    own = JITTER * jnp.finfo(Z.dtype).eps if jitter is None else jitter
    L = cholesky(add_diagonal(covariance(hyper, Z, Z), own * hyper.variance))
    A = solve_lower(L, covariance(hyper, Z, batch.X))
    # What the inducing values leave open of each row's value.
    left = jnp.maximum(hyper.variance - jnp.sum(A * A, axis=0), 0.0)
    noise_var = hyper.noise_var + alpha * left
    keep = batch.mask / jnp.sqrt(noise_var)
    rows, targets = keep[:, None] * A.T, keep[:, None] * batch.y
    count = jnp.sum(batch.mask)
    log_scale = -0.5 * E * (count * jnp.log(2.0 * jnp.pi * hyper.noise_var))
    log_scale -= E * jnp.sum(batch.mask * _spread(left / hyper.noise_var, alpha))
    # The same of the earlier inducing values, in the coordinates in which the site has unit precision.
    old = site.inducing
    T = solve_lower(L, covariance(hyper, Z, old))
    inner = solve_lower(site.factor, add_diagonal(covariance(hyper, old, old), own * hyper.variance) - T.T @ T)
    open_ = site.root.T @ solve_lower(site.factor, inner.T) @ site.root
    past = solve_lower(site.factor, T.T).T @ site.root
    past_targets = site.mean
    if alpha:
        F = cholesky(add_diagonal(0.5 * (open_ + open_.T), 1.0))
        past, past_targets = solve_lower(F, past.T).T, solve_lower(F, site.mean)
        log_scale -= 0.5 * E / alpha * log_det(F)
    else:
        log_scale -= 0.5 * E * jnp.trace(open_)
    log_scale += site.log_scale + 0.5 * jnp.sum(site.mean * site.mean)
    return _Whitened(L, jnp.concatenate([rows, past.T]), jnp.concatenate([targets, past_targets]), log_scale)


def _spread(ratio: Array, alpha: float) -> Array:
    """log(1 + alpha r) / (2 alpha), and r / 2 in the limit of alpha = 0."""
    return jnp.log1p(alpha * ratio) / (2.0 * alpha) if alpha else 0.5 * ratio


def bound(
    hyper: Hyper, Z: Float[Array, "m d"], batch: Batch, site: Site, alpha: float = 0.0, jitter: float | None = None
) -> Float[Array, ""]:
    """The variational bound on the log density of a batch given those before; summed over batches, on that of all.

    With `alpha` = 0 the free energy (Bui, Nguyen and Turner 2017, Eq. 9; Titsias 2009 without a site), with `alpha`
    in (0, 1] the energy of power expectation propagation (their Appendix A.2), which is no bound. `jitter` is
    relative to the kernel's variance; None is `JITTER` eps.
    """
    w = _whitened(hyper, Z, batch, site, alpha, jitter)
    return w.log_scale - 0.5 * jnp.sum(w.targets * w.targets) - _log_scale(w.rows, w.targets)


def _log_scale(rows: Float[Array, "n m"], targets: Float[Array, "n e"]) -> Float[Array, ""]:
    """log |I + R'R| / 2 - t'R (I + R'R)^-1 R't / 2, the first for each output."""
    root = cholesky(add_diagonal(rows.T @ rows, 1.0))
    fit = solve_lower(root, rows.T @ targets)
    return 0.5 * targets.shape[1] * jnp.asarray(log_det(root)) - 0.5 * jnp.sum(fit * fit)


def absorb(
    hyper: Hyper, Z: Float[Array, "m d"], batch: Batch, site: Site, alpha: float = 0.0, jitter: float | None = None
) -> Site:
    """The site after a batch, at the inducing inputs `Z`."""
    w = _whitened(hyper, Z, batch, site, alpha, jitter)
    Q, R = jnp.linalg.qr(w.rows)
    mean = Q.T @ w.targets
    return Site(Z, w.factor, R.T, mean, _log_scale(R, mean))


@register
class Posterior(eqx.Module):
    """What predictions need of a site: mean k(x, Z) weights, covariance k(x, x') - k(x, Z) W'W k(Z, x')."""

    inducing: Float[Array, "m d"]
    weights: Float[Array, "m e"]
    reduction: Float[Array, "m m"]

    def mean(self, hyper: Hyper, X: Float[Array, "n d"]) -> Float[Array, "n e"]:
        """Mean of the function."""
        return covariance(hyper, X, self.inducing) @ self.weights

    def variance(self, hyper: Hyper, X: Float[Array, "n d"]) -> Float[Array, " n"]:
        """Variance of the function, without noise."""
        reduced = covariance(hyper, X, self.inducing) @ self.reduction.T
        return jnp.maximum(hyper.variance - jnp.sum(reduced * reduced, axis=1), 0.0)

    def covariance(self, hyper: Hyper, X: Float[Array, "n d"]) -> Float[Array, "n n"]:
        """Covariance of the function between the rows of `X`."""
        reduced = covariance(hyper, X, self.inducing) @ self.reduction.T
        return covariance(hyper, X, X) - reduced @ reduced.T


def posterior(site: Site) -> Posterior:
    """Of b: mean L (I + CC')^-1 C g, covariance L (I + CC')^-1 L', as weights on covariances with b."""
    m = len(site.inducing)
    # I - (I + CC')^-1 = C (I + C'C)^-1 C', and (I + CC')^-1 C = C (I + C'C)^-1
    inner = cholesky(add_diagonal(site.root.T @ site.root, 1.0))
    inverse = solve_lower(site.factor, jnp.eye(m, dtype=site.factor.dtype))
    reduction = solve_lower(inner, site.root.T) @ inverse
    whitened = site.root @ cholesky_solve(inner, site.mean)
    return Posterior(site.inducing, inverse.T @ whitened, reduction)
