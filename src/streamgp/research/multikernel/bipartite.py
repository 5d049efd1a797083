"""OMKL-GF: a few kernels at every row, drawn by their past losses (Ghari and Shen 2020)."""

from jaxtyping import Float, Int

from streamgp.numerics.accelerator import Array, jax, jnp
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.keys import Key
from streamgp.numerics.module import Module, static_field
from streamgp.research.multikernel.experts import FeatureBank, Prediction, normalise, take_step
from streamgp.research.multikernel.losses import Loss
from streamgp.research.multikernel.rates import Rate


@register
class BipartiteState(Module):
    """Coefficients, log weights, rows learnt, the random key."""

    theta: Float[Array, "n f c"]
    log_w: Float[Array, " n"]
    t: Int[Array, ""]
    key: AnyArray


@register
class OMKLGF(Module):
    """Online multi-kernel learning with graph-structured feedback (Ghari and Shen 2020).

    Each row a new graph joins J selective nodes with kernels: node j draws M of them, with repetition, from
    p_ij = (1 - xi^j) w_i / W + xi^j / N. A node is drawn by the weight of its kernels, u_j, with exploration xi; its
    kernels predict, weighed by w, and learn from their losses, divided by their probability to be evaluated,
    q_i = sum_j p_j (1 - (1 - p_ij)^M).

    Parameters
    ----------
    bank, loss, rate, penalty, radius, weights_after
        As in `Raker`.
    exploration
        xi_t.
    nodes, draws
        J and M; with one node there is no draw of a node.
    clip
        Lower bound of q where losses are divided by it.
    plain_steps
        Whether gradient steps take the losses as they are, and only weights divide them, as in the authors' script.
    """

    bank: FeatureBank
    loss: Loss
    rate: Rate
    exploration: Rate
    nodes: int = static_field(default=1)
    draws: int = static_field(default=10)
    penalty: float = static_field(default=1e-3)
    radius: float = static_field(default=float("inf"))
    clip: float = static_field(default=0.0)
    plain_steps: bool = static_field(default=False)
    weights_after: bool = static_field(default=False)

    def init(self, key: Key) -> BipartiteState:
        """Return the state before any row: coefficients zero, equal weights; `key` decides the draws."""
        n, dtype = self.bank.num_kernels, self.bank.frequencies.dtype
        theta = jnp.zeros((n, self.bank.num_features, self.loss.num_functions), dtype)
        return BipartiteState(theta, jnp.full(n, -jnp.log(n), dtype), jnp.zeros((), int), key)

    def prepare_rows(
        self, state: BipartiteState, X: Float[Array, "n d"], steps: Int[Array, " n"]
    ) -> tuple[Float[Array, "n d"], Float[Array, "n j m k"], Float[Array, "n j"]]:
        """Return what does not depend on the targets: the inputs, and Gumbel noise that decides the draws."""
        key = state.key
        shape = (self.nodes, self.draws, self.bank.num_kernels)

        def noise(step: Array) -> tuple[Array, Array]:
            one, other = jax.random.split(jax.random.fold_in(key, step))
            return jax.random.gumbel(one, shape, X.dtype), jax.random.gumbel(other, shape[:1], X.dtype)

        return X, *jax.vmap(noise)(steps)

    def predict(self, state: BipartiteState, row: tuple[Array, Array, Array]) -> Prediction:
        """Predict one row by the kernels drawn."""
        which, first, _ = self._draw(state, row)
        return self._evaluate(state, row[0], which, first)[0]

    def step(
        self, state: BipartiteState, row: tuple[Array, Array, Array], y: Float[Array, " e"]
    ) -> tuple[BipartiteState, Prediction]:
        """Predict one row, then take a step of the kernels that were drawn, and of their weights."""
        which, first, q = self._draw(state, row)
        prediction, z, each = self._evaluate(state, row[0], which, first)
        t = state.t + 1
        eta, observed = self.rate(t), jnp.maximum(q[which], self.clip)
        steps, bounds = eta if self.plain_steps else eta / observed, (self.penalty, self.radius, self.weights_after)
        # A kernel drawn twice gets the same new coefficients twice.
        after, loss = take_step(self.loss, state.theta[which], z, each, y, steps, *bounds)
        lost = eta * 0.5 ** (self.nodes.bit_length() - 1) * loss / observed
        log_w = state.log_w.at[which].add(jnp.where(first, -lost, 0.0))
        return BipartiteState(state.theta.at[which].set(after), normalise(log_w), t, state.key), prediction

    def _draw(self, state: BipartiteState, row: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        """Draw the kernels of a node (M); also return which of them are no repetition, and q of all kernels."""
        _, noise, node_noise = row
        n, xi = self.bank.num_kernels, self.exploration(state.t + 1)
        powers = xi ** jnp.arange(1, self.nodes + 1)[:, None]
        p = (1.0 - powers) * jnp.exp(state.log_w)[None] + powers / n
        drawn = jnp.argmax(jnp.log(p)[:, None] + noise, axis=-1)
        joined = jax.nn.one_hot(drawn, n, dtype=p.dtype).max(1)
        u = joined @ jnp.exp(state.log_w)
        of_node = (1.0 - xi) * u / u.sum() + xi / self.nodes
        which = drawn[jnp.argmax(jnp.log(of_node) + node_noise)]
        earlier = jnp.tril(which[:, None] == which[None], -1).any(1)
        q = of_node @ -jnp.expm1(self.draws * jnp.log1p(-jnp.minimum(p, 1.0 - 1e-16)))
        return which, ~earlier, q

    def _evaluate(
        self, state: BipartiteState, x: Array, which: Array, first: Array
    ) -> tuple[Prediction, Array, Array]:
        share = jnp.exp(normalise(jnp.where(first, state.log_w[which], -jnp.inf)))
        z = self.bank.of(x, which)
        each = jnp.einsum("kf,kfc->kc", z, state.theta[which])
        return Prediction(share @ each, jnp.zeros_like(state.log_w).at[which].add(share)), z, each
