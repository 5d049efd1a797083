"""An online ensemble: experts of equal shape run as one batch, a rule weighs them.

The prediction of a row is the mixture of its experts' predictions (Lu et al. 2022, Eq. 20; Waxman and Djuric
2024, Eq. 14), with weights that have not seen the row's target.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float, Key

from streamgp.bases.base import Basis
from streamgp.core import Info, Predictive
from streamgp.dynamics import Dynamics
from streamgp.filtering import FilterState, Noise, predict_rows, prior_state, update_blocks
from streamgp.serialise import register
from streamgp.weights import WeightRule

BLOCK = 64  # rows per block of the filter: long enough for matrix products, short beside F


class Expert(eqx.Module):
    """One basis with its prior variance v, noise variance s2 and dynamics."""

    basis: Basis
    prior_var: Float[Array, ""]
    noise_var: Float[Array, ""]
    dynamics: Dynamics
    name: str = eqx.field(static=True, default="")


@register
class Group(eqx.Module):
    """Experts of equal shape: G bases (leading axis), each with R dynamics that share its features."""

    basis: Basis
    noise: Noise
    dynamics: Dynamics


@register
class EnsembleState(eqx.Module):
    """Belief of every expert, the weights, and the clock."""

    filters: tuple[FilterState, ...]
    weights: Any
    last_time: Float[Array, ""]


@register
class Ensemble(eqx.Module):
    """A mixture of streaming experts; an `OnlineModel`.

    Build it with `ensemble`. Experts keep the order in which they were given, whatever their grouping.
    """

    groups: tuple[Group, ...]
    rule: Any
    log_prior: Float[Array, " k"]
    time_unit: Float[Array, ""]
    order: tuple[int, ...] = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    num_inputs: int = eqx.field(static=True)
    num_outputs: int = eqx.field(static=True)

    @property
    def num_experts(self) -> int:
        """K, the number of experts."""
        return len(self.order)

    def init(self, key: Key[Array, ""]) -> EnsembleState:
        """Every expert at its prior, weights at theirs. Nothing is drawn: `key` is the protocol's."""
        filters = []
        for group in self.groups:
            F = jax.eval_shape(lambda b: b(jnp.zeros((1, self.num_inputs))), _member(group.basis, 0)).shape[1]
            make = jax.vmap(jax.vmap(lambda v, F=F: prior_state(F, self.num_outputs, v)))
            filters.append(make(group.noise.prior_var))
        nothing = jnp.full_like(self.time_unit, jnp.nan)
        return EnsembleState(tuple(filters), self.rule.init(self.log_prior), nothing)

    @eqx.filter_jit
    def predict(
        self, state: EnsembleState, X: Float[Array, "n d"], times: Float[Array, " n"] | None = None
    ) -> Predictive:
        """Predict each row as if it were the next one."""
        tau = self._elapsed(state, X, times)

        def one_basis(args: tuple) -> tuple:
            basis, noise, dynamics, filters = args
            Phi = basis(X)
            return jax.lax.map(lambda a: predict_rows(a[0], Phi, tau, a[1], a[2]), (filters, dynamics, noise))

        parts = [
            jax.lax.map(one_basis, (group.basis, group.noise, group.dynamics, filters))
            for group, filters in zip(self.groups, state.filters, strict=True)
        ]
        loc, var = self._collect(parts)
        log_weights = jnp.broadcast_to(self.rule.predict(state.weights)[None], loc.shape[:2])
        return Predictive(log_weights, loc, var)

    @eqx.filter_jit
    def update(
        self,
        state: EnsembleState,
        X: Float[Array, "n d"],
        y: Float[Array, "n e"],
        mask: Bool[Array, " n"] | None = None,
        times: Float[Array, " n"] | None = None,
    ) -> tuple[EnsembleState, Info]:
        """Learn from the rows in order and return the one-step-ahead prediction of each.

        Rows with a false `mask` change nothing; their entry in the returned prediction is NaN.
        """
        n = X.shape[0]
        mask = jnp.ones(n, bool) if mask is None else mask
        size = min(BLOCK, n)
        padding = -n % size
        clock, last_time = self._clock(state, mask, times)
        blocks = _Blocks(
            _split(X, size, padding),
            _split(y, size, padding),
            _split(mask, size, padding),
            _taus(clock, size, padding),
        )
        weights_before = self.rule.predict(state.weights)
        alive = jnp.isfinite(weights_before)
        filters, parts, outside = [], [], jnp.zeros(n, bool)
        at = 0
        for group, beliefs in zip(self.groups, state.filters, strict=True):
            G, R = group.noise.prior_var.shape
            live = alive[jnp.asarray(self.order[at : at + G * R])].reshape(G, R)
            new, part, out = _update_group(group, beliefs, blocks, live if self.rule.shuts_down else None)
            filters.append(new)
            parts.append(part)
            outside = outside | out.reshape(-1)[:n]
            at += G * R
        loc, var = self._collect([_join(loc, var, n) for loc, var in parts])
        log_density = norm.logpdf(y[:, None, :], loc, jnp.sqrt(var)).sum(-1)

        def weigh(weights: Any, row: tuple) -> tuple:
            log_density, keep = row
            new = self.rule.update(weights, log_density)
            new = jax.tree.map(lambda a, b: jnp.where(keep, a, b), new, weights)
            return new, self.rule.predict(weights)

        weights, log_weights = jax.lax.scan(weigh, state.weights, (log_density, mask))
        loc = jnp.where(mask[:, None, None], loc, jnp.nan)
        state = EnsembleState(tuple(filters), weights, last_time)
        return state, Info(Predictive(log_weights, loc, var), outside & mask)

    def _collect(self, parts: list) -> tuple[Float[Array, "n k e"], Float[Array, "n k e"]]:
        """Predictions of all groups, [G, R, n, E] and [G, R, n], as [n, K, E] in the order given by the user."""
        loc = jnp.concatenate([p[0].reshape(-1, *p[0].shape[2:]) for p in parts])
        var = jnp.concatenate([p[1].reshape(-1, p[1].shape[2]) for p in parts])
        back = np.argsort(np.asarray(self.order))
        loc = jnp.moveaxis(loc[back], 0, 1)
        return loc, jnp.broadcast_to(var[back].T[:, :, None], loc.shape)

    def _elapsed(self, state: EnsembleState, X: Array, times: Array | None) -> Float[Array, " n"]:
        """Time from the last row learnt to each row of `X`: one, unless there are time stamps."""
        if times is None:
            return jnp.ones(X.shape[0], X.dtype)
        elapsed = jnp.maximum((times - state.last_time) / self.time_unit, 0.0)
        return jnp.where(jnp.isnan(state.last_time), 1.0, elapsed)

    def _clock(
        self, state: EnsembleState, mask: Bool[Array, " n"], times: Float[Array, " n"] | None
    ) -> tuple[Float[Array, " n"], Float[Array, ""]]:
        """Time since the state's last row, in units, and the new last time.

        The clock stands still on rows left out, and on rows that come later than their time stamp.
        """
        if times is None:
            return jnp.cumsum(mask).astype(self.time_unit.dtype), state.last_time
        # The very first row of a stream comes one unit after a start that nobody observed.
        first = times[jnp.argmax(mask)] - self.time_unit
        last = jnp.where(jnp.isnan(state.last_time), first, state.last_time)
        clock = jnp.where(mask, (times - last) / self.time_unit, 0.0)
        newest = jnp.maximum(last, jnp.max(jnp.where(mask, times, -jnp.inf)))
        return jax.lax.cummax(jnp.maximum(clock, 0.0)), jnp.where(mask.any(), newest, state.last_time)


class _Blocks(eqx.Module):
    X: Float[Array, "m b d"]
    y: Float[Array, "m b e"]
    mask: Bool[Array, "m b"]
    tau: Float[Array, "m b"]


def _split(a: Array, size: int, padding: int) -> Array:
    """Rows in blocks of `size`, the last one filled with zeros (false in a mask)."""
    filled = jnp.pad(a, [(0, padding)] + [(0, 0)] * (a.ndim - 1))
    return filled.reshape(-1, size, *a.shape[1:])


def _join(loc: Float[Array, "g r m b e"], var: Float[Array, "g r m b"], n: int) -> tuple:
    """Blocks as rows again, without the filling."""
    g, r, _, _, e = loc.shape
    return loc.reshape(g, r, -1, e)[:, :, :n], var.reshape(g, r, -1)[:, :, :n]


def _taus(clock: Float[Array, " n"], size: int, padding: int) -> Float[Array, "m b"]:
    """Time from the end of the block before to each row of a block."""
    clock = jnp.pad(clock, (0, padding), mode="edge").reshape(-1, size)
    start = jnp.concatenate([jnp.zeros_like(clock[:1, -1]), clock[:-1, -1]])
    return clock - start[:, None]


def _update_group(group: Group, beliefs: FilterState, blocks: _Blocks, live: Bool[Array, "g r"] | None) -> tuple:
    """Run the experts of one group over the blocks, one after the other: each keeps its covariance in cache."""
    m, b, d = blocks.X.shape
    always = live is None
    live = jnp.ones(group.noise.prior_var.shape, bool) if live is None else live

    rows = blocks.X.reshape(m * b, d)

    def features(basis: Basis) -> tuple:
        Phi = jnp.where(blocks.mask[:, :, None], basis(rows).reshape(m, b, -1), 0.0)
        return Phi, jnp.einsum("mif,mjf->mij", Phi, Phi)

    def no_features(basis: Basis) -> tuple:
        return jax.tree.map(jnp.zeros_like, jax.eval_shape(features, basis))

    def one_basis(args: tuple) -> tuple:
        basis, noise, dynamics, beliefs, live = args
        Phi, gram = features(basis) if always else jax.lax.cond(live.any(), features, no_features, basis)

        def run(args: tuple) -> tuple:
            belief, dynamics, noise = args
            return update_blocks(belief, Phi, gram, blocks.y, blocks.mask, blocks.tau, dynamics, noise)

        def skip(args: tuple) -> tuple:
            return args[0], (jnp.zeros_like(blocks.y), jnp.ones_like(blocks.tau))

        def one_expert(args: tuple) -> tuple:
            *work, live = args
            return run(tuple(work)) if always else jax.lax.cond(live, run, skip, tuple(work))

        return jax.lax.map(one_expert, (beliefs, dynamics, noise, live)), basis.outside(rows)

    args = (group.basis, group.noise, group.dynamics, beliefs, live)
    (beliefs, part), outside = jax.lax.map(one_basis, args)
    return beliefs, part, outside.any(0)


def _member(tree: Any, index: int) -> Any:
    return jax.tree.map(lambda a: a[index], tree)


def _stack(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _shape_of(tree: Any) -> tuple:
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple((a.shape, a.dtype) for a in leaves)


def ensemble(
    experts: Sequence[Expert],
    rule: WeightRule,
    *,
    num_outputs: int = 1,
    log_prior: Any = None,
    time_unit: float = 1.0,
) -> Ensemble:
    """Group experts by shape into one model.

    Parameters
    ----------
    experts
        Experts over the same inputs. Those that hold the same basis object share its features.
    rule
        How the weights follow the experts' predictions.
    num_outputs
        E, the number of targets.
    log_prior
        Log of the initial weights; uniform by default.
    time_unit
        The length of one time step, for streams with time stamps.
    """
    if not experts:
        raise ValueError("ensemble: expected at least one expert, got none")
    by_basis: dict[int, list[int]] = {}
    for i, expert in enumerate(experts):
        by_basis.setdefault(id(expert.basis), []).append(i)
    by_shape: dict[tuple, list[list[int]]] = {}
    for members in by_basis.values():
        by_shape.setdefault((_shape_of(experts[members[0]].basis), len(members)), []).append(members)
    groups, order = [], []
    for rows in by_shape.values():
        basis = _stack([experts[members[0]].basis for members in rows])
        noise = _stack([_stack([Noise(experts[i].prior_var, experts[i].noise_var) for i in m]) for m in rows])
        dynamics = _stack([_stack([experts[i].dynamics for i in members]) for members in rows])
        groups.append(Group(basis, noise, dynamics))
        order.extend(i for members in rows for i in members)
    k = len(experts)
    log_prior = jnp.full(k, -np.log(k)) if log_prior is None else jnp.asarray(log_prior)
    return Ensemble(
        groups=tuple(groups),
        rule=rule,
        log_prior=log_prior,
        time_unit=jnp.asarray(float(time_unit)),
        order=tuple(order),
        names=tuple(expert.name for expert in experts),
        num_inputs=experts[0].basis.num_inputs,
        num_outputs=num_outputs,
    )
