"""Closed-form derivatives of every likelihood: against JAX's of other spellings, and in the tails."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammaln, log_ndtr
from scipy.special import log_expit

from streamgp.likelihoods import (
    Categorical,
    Likelihood,
    Logistic,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Probit,
    StudentT,
)
from streamgp.likelihoods.categorical import contrasts

SHARES = [0.3, -0.2, 0.1, 0.5]


def softmax(count: int) -> Callable[..., Any]:
    return lambda p, f, y: jax.nn.log_softmax(f @ contrasts(count) + jnp.asarray(SHARES[:count]))[y.astype(int)]


def grades(p: Mapping[str, Any], f: Any, y: Any) -> Any:
    """The log of the difference of two distribution functions, on the side where they are small."""
    edges = p["first"] + jnp.concatenate([jnp.zeros(1), jnp.cumsum(p["gaps"])])
    z = jnp.concatenate([jnp.array([-1e3]), edges, jnp.array([1e3])]) - f[0]
    low, high = z[y.astype(int)], z[y.astype(int) + 1]
    low, high = jnp.where(low + high > 0.0, -high, low), jnp.where(low + high > 0.0, -low, high)
    return log_ndtr(high) + jnp.log(-jnp.expm1(log_ndtr(low) - log_ndtr(high)))


def negative_binomial(p: Mapping[str, Any], f: Any, y: Any) -> Any:
    eta, r = f[0] + 0.3, p["dispersion"]
    odds = eta - jnp.log(r)
    return gammaln(y + r) - gammaln(r) - gammaln(y + 1) + y * odds - (y + r) * jax.nn.softplus(odds)


def poisson(p: Mapping[str, Any], f: Any, y: Any) -> Any:
    return y * (f[0] + 0.3) - jnp.exp(f[0] + 0.3) - gammaln(y + 1)


A = np.asarray
# Of each: the likelihood, targets, its hyperparameters, and its log probability as a function of these.
CASES: dict[str, tuple[Likelihood, list[float], dict[str, Any], Callable[..., Any]]] = {
    "logistic": (
        Logistic(A(0.3)),
        [0, 1],
        {},
        lambda p, f, y: jax.nn.log_sigmoid((2 * y - 1) * (f[0] + 0.3)),
    ),
    "probit": (Probit(A(0.3)), [0, 1], {}, lambda p, f, y: log_ndtr((2 * y - 1) * (f[0] + 0.3))),
    "two classes": (Categorical(2, A(SHARES[:2])), [0, 1], {}, softmax(2)),
    "four classes": (Categorical(4, A(SHARES)), [0, 2, 3], {}, softmax(4)),
    "poisson": (Poisson(A(0.3)), [0, 3, 1e6], {}, poisson),
    "negative binomial": (
        NegativeBinomial(A(0.3), A(2.0)),
        [0, 3, 1e6],
        {"dispersion": A(2.0)},
        negative_binomial,
    ),
    "ordinal": (
        Ordinal(A(-1.0), A([0.5, 1.2])),
        [0, 1, 2, 3],
        {"first": A(-1.0), "gaps": A([0.5, 1.2])},
        grades,
    ),
    "student": (
        StudentT(A(0.3), A(0.5), A(4.0)),
        [0, 3, 1e6],
        {"scale": A(0.5)},
        lambda p, f, y: jax.scipy.stats.t.logpdf(y, 4.0, f[0] + 0.3, p["scale"]),
    ),
}


def of_rows(log_p: Callable[..., Any]) -> Callable[..., Any]:
    """Value, gradient, precision, third derivatives, and the slope by hyperparameters, of rows."""

    def one(p: Any, f: Any, y: Any, slope: Any, along: Any) -> tuple[Any, ...]:
        def precision(p: Any, f: Any) -> Any:
            return -jax.hessian(log_p, 1)(p, f, y)

        def total(p: Any) -> Any:
            return log_p(p, f, y) + slope @ jax.grad(log_p, 1)(p, f, y) + jnp.sum(along * precision(p, f))

        bend = jax.grad(lambda f: jnp.sum(along * precision(p, f)))(f)
        return log_p(p, f, y), jax.grad(log_p, 1)(p, f, y), precision(p, f), bend, jax.grad(total)(p)

    return jax.jit(jax.vmap(one, (None, 0, 0, 0, 0)))


@pytest.mark.parametrize("name", CASES)
def test_against_automatic_differentiation(name):
    likelihood, targets, hyper, log_p = CASES[name]
    rng = np.random.default_rng(0)
    y = np.repeat(A(targets, float), 12)
    f = 2.0 * rng.normal(size=(len(y), likelihood.num_latents))
    slope, along = rng.normal(size=f.shape), rng.normal(size=(*f.shape, likelihood.num_latents))
    along = along + np.swapaxes(along, 1, 2)
    expansion = likelihood.expand(f, y)
    bend, by = likelihood.bend(f, y, along), likelihood.by_hyperparameters(f, y, slope, along)
    got = likelihood.log_prob(f, y), expansion.gradient, expansion.precision, bend
    *want, of_hyper = of_rows(log_p)(hyper, f, y, slope, along)
    for mine, other in zip(got, want, strict=True):
        np.testing.assert_allclose(mine, other, rtol=2e-9, atol=1e-11)
    assert by.keys() == hyper.keys() == dict(likelihood.trainable).keys()
    for field, mine in by.items():
        np.testing.assert_allclose(mine, of_hyper[field], rtol=2e-9, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_the_expansion_leaves_out_what_depends_on_the_target_alone(name):
    likelihood, targets, _, _ = CASES[name]
    y = A(targets, float)[:, None]
    f = np.random.default_rng(1).normal(size=(len(y), 5, likelihood.num_latents))
    left_out = likelihood.log_prob(f, y) - likelihood.expand(f, y).value
    np.testing.assert_allclose(left_out, left_out[:, :1] * np.ones(5), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(likelihood.log_shape(f, y), likelihood.expand(f, y).value, rtol=1e-12, atol=1e-12)


def stacked(*members: Likelihood) -> Likelihood:
    return members[0].with_arrays(
        [np.stack([getattr(each, name) for each in members]) for name in members[0].array_fields]
    )


@pytest.mark.parametrize("name", CASES)
def test_a_stack_is_its_members(name):
    likelihood, targets, _, _ = CASES[name]
    other = likelihood.with_arrays([1.3 * getattr(likelihood, field) for field in likelihood.array_fields])
    rng, c, y = np.random.default_rng(2), likelihood.num_latents, A(float(targets[-1]))
    loc, root = rng.normal(size=(2, c)), rng.normal(size=(2, c, c))
    cov = root @ np.swapaxes(root, 1, 2)
    both = stacked(likelihood, other)
    for k, member in enumerate((likelihood, other)):
        for whole, part in zip(both.expand(loc, y), member.expand(loc[k], y), strict=True):
            np.testing.assert_allclose(whole[k], part, rtol=1e-13)
        np.testing.assert_allclose(
            both.log_predictive(y, loc, cov)[k], member.log_predictive(y, loc[k], cov[k]), rtol=1e-10
        )


def fraction(x: float) -> float:
    """1 / (x + 2 / (x + 3 / (x + ...))): the normal hazard at x less x, for large x (Laplace 1805)."""
    tail = x
    for k in range(400, 1, -1):
        tail = x + k / tail
    return 1.0 / tail


@pytest.mark.parametrize("x", [5.0, 12.0, 40.0, 299.0, 301.0, 1e4, 1e7])
def test_the_probit_in_its_tail(x):
    likelihood, at = Probit(A(0.0)), (np.array([-x]), A(1.0))
    more = fraction(x)
    _, gradient, precision = likelihood.expand(*at)
    np.testing.assert_allclose(gradient[0], x + more, rtol=1e-14)
    np.testing.assert_allclose(precision[0, 0], (x + more) * more, rtol=1e-10)
    if x < 1e3:
        h = 1e-4 * x
        ends = [(x + s * h + fraction(x + s * h)) * fraction(x + s * h) for s in (1.0, -1.0)]
        np.testing.assert_allclose(
            likelihood.bend(*at, np.ones((1, 1)))[0], -(ends[0] - ends[1]) / (2.0 * h), rtol=1e-4
        )
    far = Ordinal(A(-1.0), A([0.5])).expand(np.array([-x - 1.0]), A(2.0))
    np.testing.assert_allclose(far.gradient[0], x + 0.5 + fraction(x + 0.5), rtol=1e-13)
    np.testing.assert_allclose(far.precision[0, 0], (x + 0.5 + fraction(x + 0.5)) * fraction(x + 0.5), rtol=1e-8)


@pytest.mark.parametrize("f", [-40.0, 40.0])
def test_labels_that_are_nearly_certain_keep_their_digits(f):
    rare = np.exp(-40.0)
    for y in (0.0, 1.0):
        certain = (f > 0.0) == (y == 1.0)
        value, gradient, precision = Logistic(A(0.0)).expand(np.array([f]), A(y))
        np.testing.assert_allclose(value, log_expit(40.0 if certain else -40.0), rtol=1e-14)
        np.testing.assert_allclose(abs(gradient[0]), rare if certain else 1.0, rtol=1e-14)
        np.testing.assert_allclose(precision[0, 0], rare, rtol=1e-14)
    # The first of three classes, by its own contrasts.
    g = contrasts(3) @ np.array([40.0, 0.0, 0.0])
    value = Categorical(3, np.zeros(3)).expand(g, A(0.0)).value
    np.testing.assert_allclose(value, -2.0 * rare, rtol=1e-13)


def test_extremes_of_counts():
    for likelihood in (Poisson(A(0.0)), NegativeBinomial(A(0.0), A(2.0))):
        for f in (-700.0, -40.0, 40.0, 700.0):
            for y in (0.0, 1e6):
                parts = likelihood.expand(np.array([f]), A(y))
                assert all(np.isfinite(part).all() for part in parts)
                assert parts.precision[0, 0] >= 0.0
    _, gradient, precision = NegativeBinomial(A(0.0), A(2.0)).expand(np.array([40.0]), A(1e6))
    # For large means it is the Gamma's: -dispersion, and (y + r) r / mean.
    np.testing.assert_allclose(gradient[0], -2.0, rtol=1e-9)
    np.testing.assert_allclose(precision[0, 0], (1e6 + 2.0) * 2.0 * np.exp(-40.0), rtol=1e-12)
