"""A few kernels at a time, drawn by a graph: SFG-MKL and SFG-MKL-R (Ghari and Shen 2021).

Kernels are the nodes of a graph, each with edges to those most similar to it. A node is drawn by the past losses of
its neighbours; only these are evaluated and learn, and their losses are divided by the probability that they were
evaluated.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.numerics.accelerator import Array, jax, jnp
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.keys import Key
from streamgp.numerics.module import Module, static_field
from streamgp.research.multikernel.experts import FeatureBank, Prediction, normalise, take_step
from streamgp.research.multikernel.graph import KernelDictionary, dominating_set, nearest_first, neighbours
from streamgp.research.multikernel.losses import Loss
from streamgp.research.multikernel.rates import Rate

# In the paper's experiments SFG-MKL-R explores the set of so many kernels with the largest u.
NUM_EXPLORED = 10


@register
class FeedbackGraph(Module):
    """The similarity graph of a dictionary: out-neighbours, the same as a matrix, a dominating set, the order."""

    out: Int[Array, "n m"]
    sees: Float[Array, "n n"]
    dominating: Bool[Array, " n"]
    nearest: Int[Array, "n n"]

    @classmethod
    def of(cls, dictionary: KernelDictionary, dim: int, count: int) -> "FeedbackGraph":
        """Build edges from each kernel to the `count` most similar ones in `dim` inputs, itself included."""
        out = neighbours(dictionary, dim, count)
        sees = np.zeros((len(out), len(out)))
        np.put_along_axis(sees, out, 1.0, axis=1)
        return cls(
            jnp.asarray(out),
            jnp.asarray(sees),
            jnp.asarray(dominating_set(out)),
            jnp.asarray(nearest_first(dictionary, dim)),
        )


@register
class FeedbackState(Module):
    """Coefficients, log weights w in the prediction and u of being drawn, rows learnt, the random key."""

    theta: Float[Array, "n f c"]
    log_w: Float[Array, " n"]
    log_u: Float[Array, " n"]
    t: Int[Array, ""]
    key: AnyArray


@register
class SFG(Module):
    """SFG-MKL (Ghari and Shen 2021, Alg. 2), and with `refine` SFG-MKL-R (Alg. 3), whose graph follows the weights.

    Parameters
    ----------
    bank, loss, rate, penalty, radius
        As in `Raker`.
    graph
        The similarity graph of the kernels.
    exploration
        xi_t, the share of the draws that goes to the dominating set.
    refine
        Draw over kernels of no less than `least` of u in place of the dominating set, with an edge to each kernel
        that none of them has an edge to, from the most similar one among them.
    least
        beta of SFG-MKL-R, a constant of at most 1/N (Theorem 4); None: so that it is the ten largest u, as in the
        paper's experiments.
    greedy_after
        From this row on the node of the largest u is taken, as in the paper's experiments; p and q, which the paper
        does not define then, stay those of the draw.
    stay_at
        The node to take from then on, in place of that of the largest u.
    clip
        Lower bounds of q and p where losses are divided by them; 0: as in the paper.
    weights_after
        As in `Raker`.
    """

    bank: FeatureBank
    graph: FeedbackGraph
    loss: Loss
    rate: Rate
    exploration: Rate
    penalty: float = static_field(default=1e-3)
    radius: float = static_field(default=float("inf"))
    refine: bool = static_field(default=False)
    least: float | None = static_field(default=None)
    greedy_after: int | None = static_field(default=300)
    stay_at: int | None = static_field(default=None)
    clip: tuple[float, float] = static_field(default=(0.0, 0.0))
    weights_after: bool = static_field(default=False)

    def init(self, key: Key) -> FeedbackState:
        """Return the state before any row: coefficients zero, equal weights; `key` decides the draws."""
        n, dtype = self.bank.num_kernels, self.bank.frequencies.dtype
        theta = jnp.zeros((n, self.bank.num_features, self.loss.num_functions), dtype)
        equal = jnp.full(n, -jnp.log(n), dtype)
        return FeedbackState(theta, equal, equal, jnp.zeros((), int), key)

    def prepare_rows(
        self, state: FeedbackState, X: Float[Array, "n d"], steps: Int[Array, " n"]
    ) -> tuple[Float[Array, "n d"], Float[Array, "n k"]]:
        """Return what does not depend on the targets: the inputs, and Gumbel noise that decides the draws."""
        key = state.key

        def noise(step: Array) -> Array:
            return jax.random.gumbel(jax.random.fold_in(key, step), (self.bank.num_kernels,), X.dtype)

        return X, jax.vmap(noise)(steps)

    def predict(self, state: FeedbackState, row: tuple[Float[Array, " d"], Float[Array, " k"]]) -> Prediction:
        """Predict one row by the neighbours of the node drawn."""
        x, gumbel = row
        p, extra, nearest = self.draw_probabilities(state)
        node = self._draw(state, p, gumbel)

        def predict(which: Array, chosen: Array | None) -> Prediction:
            return self._evaluate(state, x, which, chosen)[0]

        return self._by_neighbours(predict, node, extra & (nearest == node))

    def step(
        self, state: FeedbackState, row: tuple[Float[Array, " d"], Float[Array, " k"]], y: Float[Array, " e"]
    ) -> tuple[FeedbackState, Prediction]:
        """Predict one row, then take a step of the kernels that were evaluated, and of the weights."""
        x, gumbel = row
        p, extra, nearest = self.draw_probabilities(state)
        node, t = self._draw(state, p, gumbel), state.t + 1
        eta, (least_q, least_p) = self.rate(t), self.clip
        q = self.observed_probabilities(p, extra, nearest)

        def learn(which: Array, chosen: Array | None) -> tuple[Prediction, Array, Array]:
            prediction, z, each = self._evaluate(state, x, which, chosen)
            importance = eta / jnp.maximum(q[which], least_q)
            importance = importance if chosen is None else jnp.where(chosen, importance, 0.0)
            bounds = self.penalty, self.radius, self.weights_after
            after, loss = take_step(self.loss, state.theta[which], z, each, y, importance, *bounds)
            return prediction, state.theta.at[which].set(after), state.log_w.at[which].add(-importance * loss)

        prediction, theta, log_w = self._by_neighbours(learn, node, extra & (nearest == node))
        node_loss = self.loss.value(prediction.values, y) / jnp.maximum(p[node], least_p)
        log_u = normalise(state.log_u.at[node].add(-eta * node_loss))
        return FeedbackState(theta, normalise(log_w), log_u, t, state.key), prediction

    def draw_probabilities(self, state: FeedbackState) -> tuple[Array, Array, Array]:
        """Compute p of every node for the next row (Ghari and Shen 2021, Eq. 12), and the edges that refining adds.

        These are one edge to each kernel of the second array, a mask, from the node that the third one names.
        """
        n, xi = self.bank.num_kernels, self.exploration(state.t + 1)
        u = jnp.exp(state.log_u)
        if not self.refine:
            explored, none = self.graph.dominating, jnp.zeros(n, bool)
            return (1.0 - xi) * u + xi * explored / explored.sum(), none, jnp.zeros(n, int)
        if self.least is None:
            explored = u >= jax.lax.top_k(u, min(NUM_EXPLORED, n))[0][-1]
        else:
            # Eq. 22; the largest u belongs to the set, since beta <= 1/N, however it was rounded.
            explored = ((1.0 - xi) * u >= self.least - xi / n) | (u == u.max())
        p = (1.0 - xi) * u + xi * explored / explored.sum()
        seen = explored @ self.graph.sees > 0.0
        nearest = jnp.argmin(jnp.where(explored, self.graph.nearest, n), axis=1)
        return p, ~(seen | explored), nearest

    def observed_probabilities(self, p: Array, extra: Array, nearest: Array) -> Float[Array, " n"]:
        """Compute q, the probability that each kernel is evaluated: the sum of p over its in-neighbours."""
        q = p @ self.graph.sees
        return q + jnp.where(extra, p[nearest], 0.0) if self.refine else q

    def _draw(self, state: FeedbackState, p: Array, gumbel: Array) -> Array:
        score = jnp.log(p) + gumbel
        if self.greedy_after is not None:
            then = jnp.argmax(state.log_u) if self.stay_at is None else self.stay_at
            return jnp.where(state.t >= self.greedy_after, then, jnp.argmax(score))
        return jnp.argmax(score)

    def _by_neighbours(self, work: Callable[..., Any], node: Array, more: Array) -> Any:
        """Do `work` on the out-neighbours of a node: a few, unless refining has given it `more`."""
        out = self.graph.out[node]
        if not self.refine:
            return work(out, None)
        everyone, chosen = jnp.arange(self.bank.num_kernels), (self.graph.sees[node] > 0.0) | more
        return jax.lax.cond(more.any(), lambda: work(everyone, chosen), lambda: work(out, None))

    def _evaluate(
        self, state: FeedbackState, x: Array, which: Array, chosen: Array | None
    ) -> tuple[Prediction, Array, Array]:
        """Predict by the `chosen` of some kernels (None: all of them); also return features and values of each."""
        log_w = state.log_w[which]
        share = jnp.exp(normalise(log_w if chosen is None else jnp.where(chosen, log_w, -jnp.inf)))
        z = self.bank.of(x, which)
        each = jnp.einsum("kf,kfc->kc", z, state.theta[which])
        return Prediction(share @ each, jnp.zeros_like(state.log_w).at[which].add(share)), z, each
