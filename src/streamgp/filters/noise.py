"""Adaptive noise levels: every filter has several experts, which differ only in how they treat its errors.

A filter's recursion does not depend on the unit of its variances. With a normal-inverse-gamma prior it runs in units
of the unknown noise variance, and all that learns the unit is two numbers: a (the shape) and, for each output, b
(the rate), with a <- d a + 1/2 and b <- d b + e^2 / (2 r) after a row with error e and variance r. For d = 1 this is
exact Bayesian inference of a constant noise variance (Bernardo and Smith 2000, Appendix A); a discount d < 1
forgets, with a memory of 1 / (1 - d) rows (West and Harrison 1997, section 10.8). The prediction is Student's t with
2a degrees of freedom and squared scale r b / a.

Errors may also be correlated in time, e_t = rho e_(t-1) + fresh noise: then a share rho of the last error, which is
known, goes into the next prediction, and only the fresh part is noise (Cochrane and Orcutt 1949). The filter itself
takes all errors as fresh, so that this, too, costs no covariance; where they are not, it learns from more rows than
it should, but what it says remains a prediction from the past alone, and is weighed as such.
"""

import math
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.filters.noise_kernel import NoiseFields, is_compiled, learn_noise
from streamgp.filters.noise_kinds import CONSTANT, FORMS, NoiseKind, kind_of
from streamgp.numerics import tree
from streamgp.numerics.arrays import AnyArray, is_jax, namespace, scan
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.module import Module, static_field
from streamgp.numerics.student_t import MIN_DOF

# Where nothing is forgotten the prior counts as much as this many rows: enough for the t to have a variance.
PRIOR_ROWS = 10.0
# The variance stays above this share of the filter's own: after thousands of rows without any error it would not.
MIN_FACTOR = 1e-12
# An outlier enters the level of the noise as so many times the expected square.
MAX_LEARNT = 4.0


@register
class NoiseState(NamedTuple):
    """Shape a of each kind of noise, rate b of each filter, kind and output (those of constant noise stay).

    And the last error of each filter and output, zero before any.
    """

    shape: Float[AnyArray, " j"]
    rate: Float[AnyArray, "k j e"]
    error: Float[AnyArray, "k e"]

    def with_filters(self, where: Int[np.ndarray, " l"], own: "NoiseState") -> "NoiseState":
        """Return the state with that of other filters in the places of some."""
        rate, error = np.array(self.rate), np.array(self.error)
        rate[where], error[where] = own.rate, own.error
        # Of `shape` there is one for all filters, and it is that of the stream; the rate goes with it.
        rate[where] *= (np.asarray(self.shape) / np.asarray(own.shape))[None, :, None]
        return self._replace(rate=rate, error=error)


class _Numbers(NamedTuple):
    """The numbers of several kinds, as arrays: see `NoiseKind`."""

    discount: Float[np.ndarray, " j"]
    gain: Float[np.ndarray, " j"]
    correlation: Float[np.ndarray, " j"]
    adapts: Bool[np.ndarray, " j"]


@register
class NoiseKinds(Module):
    """The kinds of noise that every filter is paired with.

    Parameters
    ----------
    names
        Of each kind, as `streamgp.filters.noise_kinds` has them.
    """

    names: tuple[str, ...] = static_field()

    def __len__(self) -> int:
        return len(self.names)

    def check_restored(self) -> None:
        """Raise ValueError if there are no such kinds."""
        parse(self.names)

    @property
    def adapt(self) -> bool:
        """Return whether any of them adapts."""
        return bool(self.numbers.adapts.any())

    @property
    def numbers(self) -> _Numbers:
        """Return the numbers of the kinds; they are not to be written to."""
        return _numbers(self.names)

    def for_outputs(self, num_outputs: int) -> "NoiseKinds":
        """Return the same kinds for several outputs: a constant level of the noise is learnt for each of them.

        A filter has one noise variance for all outputs. Learning a constant one from all rows equally is exact.
        """
        if num_outputs == 1:
            return self
        return _of(kind_of(name).learnt for name in self.names)

    def init(self, num_filters: int, num_outputs: int) -> NoiseState:
        """Start from the filter's own variance, as if from the rows in memory (`PRIOR_ROWS` where it is endless)."""
        rows = [PRIOR_ROWS if d == 1.0 else 1.0 / (1.0 - d) for d in self.numbers.discount.tolist()]
        shape = 0.5 * np.asarray(rows)
        rate = np.tile(shape[None, :, None], (num_filters, 1, num_outputs))
        return NoiseState(shape, rate, np.zeros((num_filters, num_outputs)))

    def predict(
        self,
        states: NoiseState,
        loc: Float[AnyArray, "n k e"],
        var: Float[AnyArray, "n k e"],
        gap: Float[AnyArray, " n"],
    ) -> tuple[Float[AnyArray, "n kinds e"], Float[AnyArray, "n kinds e"], Float[AnyArray, "n kinds"]]:
        """Return mean, variance and degrees of freedom of all experts' predictions, from those of the filters.

        `states` are those before each row, or a single one for all, with a leading axis; `gap` is the time that has
        passed since the last error.
        """
        xp = namespace(states.shape, states.rate, var)
        constant = ~self.numbers.adapts
        left_over = self._left_over(gap)[:, None, :, None] * states.error[:, :, None]
        factor = xp.where(constant[None, None, :, None], 1.0, states.rate / (states.shape[:, None, :, None] - 1.0))
        dof = xp.where(constant[None], xp.inf, 2.0 * states.shape)
        n, k, e = var.shape
        j = len(self)
        mean, scaled = loc[:, :, None] + left_over, var[:, :, None] * factor
        dof = xp.broadcast_to(dof[:, None], (n, k, j)).reshape(n, k * j)
        return mean.reshape(n, k * j, e), scaled.reshape(n, k * j, e), dof

    def _left_over(self, gap: Float[AnyArray, "..."]) -> Float[AnyArray, "... j"]:
        """Return how much of an error is left after a time."""
        rho = self.numbers.correlation.reshape(*(1,) * gap.ndim, -1)
        return namespace(gap).exp(gap[..., None] * np.log(np.where(rho > 0.0, rho, 1.0))) * (rho > 0.0)

    def update(
        self,
        state: NoiseState,
        error: Float[AnyArray, "k e"],
        var: Float[AnyArray, "k e"],
        gap: Float[AnyArray, ""],
        is_outlier: Bool[AnyArray, " k"] | None = None,
    ) -> NoiseState:
        """Learn from the filters' errors in a row, and from the variances that they expected.

        An outlier is not held to be noise: of its square `MAX_LEARNT` times what was expected enters at most, and
        the error before it stays the last one. An error that is not finite teaches nothing.
        """
        if not is_jax(*state, error, var, gap, is_outlier) and is_compiled():
            after = self._by_kernel(state, *_one(error, var, self._left_over(np.asarray(gap)), None, is_outlier))
            return NoiseState(*(a[1] for a in after))
        discount, half, *_ = self.numbers
        fresh = error[:, None] - self._left_over(gap)[None, :, None] * state.error[:, None]
        xp = namespace(state.rate, error)
        with np.errstate(over="ignore", invalid="ignore"):
            square, level = fresh * fresh / var[:, None], state.rate / state.shape[None, :, None]
        if is_outlier is not None:
            square = xp.where(is_outlier[:, None, None], xp.minimum(square, MAX_LEARNT * level), square)
            error = xp.where(is_outlier[:, None], state.error, error)
        square = xp.where(xp.isfinite(square), square, level)
        error = xp.where(xp.isfinite(error), error, 0.0)
        shape = discount * state.shape + half
        rate = discount[None, :, None] * state.rate + half[None, :, None] * square
        return NoiseState(shape, xp.maximum(rate, MIN_FACTOR * shape[None, :, None]), error)

    def update_rows(
        self,
        state: NoiseState,
        error: Float[AnyArray, "n k e"],
        var: Float[AnyArray, "n k e"],
        gap: Float[AnyArray, " n"],
        mask: Bool[AnyArray, " n"],
        known: Float[AnyArray, "n k e"] | None = None,
        is_outlier: Bool[AnyArray, "n k"] | None = None,
    ) -> tuple[NoiseState, NoiseState]:
        """Learn from consecutive rows; return the new state, and the state before each row, stacked.

        What was predicted of an error is a share of the one before it; of forecasts, of the last one `known` then.
        """
        given: tuple[Any, ...] = error, var, gap, mask, known, is_outlier
        if not is_jax(*state, *given):
            return self._update_rows_in_numpy(state, *given)
        xp = namespace(*state, *given)

        def step(state: NoiseState, row: tuple) -> tuple[NoiseState, NoiseState]:
            error, var, gap, keep, known, is_outlier = row
            before = state if known is None else state._replace(error=known)
            new = self.update(before, error, var, gap, is_outlier)
            # The error of a forecast that met an outlier is not carried on.
            if known is not None and is_outlier is not None:
                new = new._replace(error=xp.where(is_outlier[:, None], 0.0, new.error))
            return tree.map(lambda a, b: xp.where(keep, a, b), new, state), state

        return scan(step, tree.map(xp.asarray, state), given)

    def _update_rows_in_numpy(
        self,
        state: NoiseState,
        error: Float[np.ndarray, "n k e"],
        var: Float[np.ndarray, "n k e"],
        gap: Float[np.ndarray, " n"],
        mask: Bool[np.ndarray, " n"],
        known: Float[np.ndarray, "n k e"] | None,
        is_outlier: Bool[np.ndarray, "n k"] | None,
    ) -> tuple[NoiseState, NoiseState]:
        """Do what `update_rows` does: all that does not depend on the levels for the rows that count, at once."""
        at = np.cumsum(mask) - mask
        error, var, gap = error[mask], var[mask], gap[mask]
        outlying = None if is_outlier is None or not is_outlier[mask].any() else is_outlier[mask]
        if is_compiled():
            known = None if known is None else known[mask]
            states = self._by_kernel(state, error, var, self._left_over(gap), known, outlying)
            return NoiseState(*(a[-1] for a in states)), NoiseState(*(a[at] for a in states))
        left = np.where(np.isfinite(error), error, 0.0)
        if known is None:
            last = left if outlying is None else _carried(left, outlying, np.asarray(state.error))
            errors = np.concatenate([np.asarray(state.error)[None], last])
            before = errors[:-1]
        else:
            last = left if outlying is None else np.where(outlying[:, :, None], 0.0, left)
            errors, before = np.concatenate([np.asarray(state.error)[None], last]), known[mask]
        with np.errstate(over="ignore", invalid="ignore"):
            fresh = error[:, :, None] - self._left_over(gap)[:, None, :, None] * before[:, :, None]
            squares = fresh * fresh / var[:, :, None]
        shapes, rates = self._levels(state, squares, outlying)
        states = NoiseState(shapes, rates, errors)
        return NoiseState(*(a[-1] for a in states)), NoiseState(*(a[at] for a in states))

    def _by_kernel(self, state: NoiseState, *rows: np.ndarray | None) -> NoiseState:
        """Return the states before each row and after the last; see `learn_noise`."""
        filters, _, outputs = np.shape(state.rate)
        return NoiseState(*learn_noise(self.kernel_fields(filters, outputs), state, rows))

    def kernel_fields(self, num_filters: int, num_outputs: int) -> NoiseFields:
        """Return what the kernel in C needs to know of them."""
        return NoiseFields(*self.numbers[:2], (MIN_FACTOR, MAX_LEARNT), num_filters, num_outputs)

    def _levels(
        self, state: NoiseState, squares: Float[np.ndarray, "m k j e"], is_outlier: Bool[np.ndarray, "m k"] | None
    ) -> tuple[Float[np.ndarray, "l j"], Float[np.ndarray, "l k j e"]]:
        """Return shapes and rates before each row and after the last, from the squares of its errors."""
        discount, half, *_ = self.numbers
        shapes = np.empty((len(squares) + 1, len(discount)))
        shapes[0] = state.shape
        for i in range(len(squares)):
            shapes[i + 1] = discount * shapes[i] + half
        rates = self._rates(np.asarray(state.rate), shapes, squares, is_outlier, None)
        least = MIN_FACTOR * shapes[:, None, :, None]
        if (rates[1:] < least[1:]).any():
            rates = self._rates(np.asarray(state.rate), shapes, squares, is_outlier, least)
        return shapes, rates

    def _rates(
        self,
        first: Float[np.ndarray, "k j e"],
        shapes: Float[np.ndarray, "l j"],
        squares: Float[np.ndarray, "m k j e"],
        is_outlier: Bool[np.ndarray, "m k"] | None,
        least: Float[np.ndarray, "l 1 j 1"] | None,
    ) -> Float[np.ndarray, "l k j e"]:
        """Return the rates, which may be bounded from below."""
        # Arrays of one shape go through a call in one piece.
        discount, half = (np.array(np.broadcast_to(a[None, :, None], first.shape)) for a in self.numbers[:2])
        with np.errstate(invalid="ignore"):  # constant noise learns nothing of an infinite square
            rates, added = np.empty((len(shapes), *first.shape)), half * squares
        rates[0] = first
        absurd: Any = ~np.isfinite(added).all((1, 2, 3))
        outlying: Any = np.zeros(len(squares), bool) if is_outlier is None else is_outlier.any(1)
        for i, more in enumerate(added):
            now, after = rates[i], rates[i + 1]
            if absurd[i] or outlying[i]:
                level = now / shapes[i][None, :, None]
                if is_outlier is not None and outlying[i]:
                    some = is_outlier[i]
                    more[some] = half[some] * np.minimum(squares[i][some], MAX_LEARNT * level[some])
                more[...] = np.where(np.isfinite(more), more, half * level)
            np.multiply(now, discount, out=after)
            after += more
            if least is not None:
                np.maximum(after, least[i + 1], out=after)
        return rates

    def draw(
        self, state: NoiseState, number: int, kind: Int[np.ndarray, " m"], rng: np.random.Generator
    ) -> Float[np.ndarray, "m e"]:
        """Draw m levels of a filter's noise, each as a kind believes it to be; 1 where it is constant."""
        rate = np.asarray(state.rate)[number, kind]
        drawn = rate / rng.gamma(np.asarray(state.shape)[kind, None], size=rate.shape)
        return np.where(self.numbers.adapts[kind, None], drawn, 1.0)


def _carried(
    errors: Float[np.ndarray, "m k e"], is_outlier: Bool[np.ndarray, "m k"], first: Float[np.ndarray, "k e"]
) -> Float[np.ndarray, "m k e"]:
    """Return the last error of each filter after each row; outliers leave it as it was, `first` before any row."""
    places = np.where(is_outlier, 0, np.arange(1, len(errors) + 1)[:, None])
    latest = np.maximum.accumulate(places, axis=0)
    return np.concatenate([first[None], errors])[latest, np.arange(errors.shape[1])]


def _one(*arrays: np.ndarray | None) -> list[Any]:
    """Return arrays of a row as those of several."""
    return [None if a is None else np.asarray(a)[None] for a in arrays]


def _of(kinds: Iterable[NoiseKind]) -> NoiseKinds:
    """Return kinds of noise, each of them once."""
    return NoiseKinds(tuple(dict.fromkeys(kind.name for kind in kinds)))


@cache
def _numbers(names: tuple[str, ...]) -> _Numbers:
    kinds = [kind_of(name) for name in names]
    given = ("discount", "gain", "correlation", "adapts")
    return _Numbers(*(np.asarray([getattr(kind, name) for kind in kinds]) for name in given))


CONSTANT_NOISE = NoiseKinds((CONSTANT,))


def parse(names: Sequence[str | float]) -> NoiseKinds:
    """Parse kinds of noise from their names: see `streamgp.filters.noise_kinds`.

    Raises
    ------
    ValueError
        If a name is unknown or a number out of range: predictions need a variance, hence a memory of some rows.
    """
    least = 1.0 - 1.0 / MIN_DOF
    kinds = []
    for name in names:
        kind = kind_of(name)
        if not (math.isfinite(kind.discount) and least <= kind.discount <= 1.0):
            raise ValueError(f"noise: expected a discount between {least:g} and 1, got {name!r}")
        if not 0.0 <= kind.correlation < 1.0:
            raise ValueError(f"noise: expected a correlation of at least 0 and below 1, got {name!r}")
        kinds.append(kind)
    if not kinds:
        forms = ", ".join(f"'{form.words}'" for form in FORMS)
        raise ValueError(f"noise: expected at least one of {forms}, got none")
    return _of(kinds)
