"""OMKR: kernel expansions over the rows themselves, without random features (Sahoo, Hoi and Li 2014, 2019)."""

from jaxtyping import Float, Int

from streamgp.bases.kernels import Kernel
from streamgp.numerics.accelerator import Array, jax, jnp
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.keys import Key
from streamgp.numerics.module import Module, static_field
from streamgp.research.multikernel.experts import Prediction, normalise
from streamgp.research.multikernel.graph import KernelDictionary
from streamgp.research.multikernel.losses import Loss
from streamgp.research.multikernel.rates import Rate


@register
class ExpansionState(Module):
    """The rows kept, their coefficients for each kernel, log weights, rows learnt."""

    points: Float[Array, "b d"]
    theta: Float[Array, "b n c"]
    log_w: Float[Array, " n"]
    t: Int[Array, ""]


@register
class OMKR(Module):
    """f_i(x) = sum_s theta_is k_i(x_s, x), one new coefficient a row, and weights w_i *= discount^loss.

    Each row costs the number of rows kept times the number of kernels. The newest `capacity` rows are kept: with as
    many as the stream has this is the paper's algorithm, with fewer its budgeted form, which forgets the oldest; then
    the rate must not fall for ever, since the kept coefficients would add up to less and less.

    Parameters
    ----------
    kernels
        The kernels, grouped by kind; `lengthscales` has those of each group, N in all.
    lengthscales
        See `kernels`.
    loss, rate
        As in `Raker`; there is no penalty.
    num_inputs
        d.
    capacity
        B, the largest number of rows that are kept.
    discount
        beta in the weights.
    slope
        Factor of the gradient of the loss: with 1/2 the step of the squared loss is eta (f - y), as in the authors'
        script.
    """

    kernels: tuple[Kernel, ...] = static_field()
    lengthscales: tuple[Float[Array, " _"], ...]
    loss: Loss
    rate: Rate
    num_inputs: int = static_field()
    capacity: int = static_field(default=500)
    discount: float = static_field(default=0.5)
    slope: float = static_field(default=0.5)

    @property
    def num_kernels(self) -> int:
        """Return N."""
        return sum(len(group) for group in self.lengthscales)

    def init(self, key: Key) -> ExpansionState:
        """Return the state before any row; `key` is not used."""
        n, dtype = self.num_kernels, self.lengthscales[0].dtype
        return ExpansionState(
            jnp.zeros((self.capacity, self.num_inputs), dtype),
            jnp.zeros((self.capacity, n, self.loss.num_functions), dtype),
            jnp.full(n, -jnp.log(n), dtype),
            jnp.zeros((), int),
        )

    def prepare_rows(
        self, state: ExpansionState, X: Float[Array, "n d"], steps: Int[Array, " n"]
    ) -> Float[Array, "n d"]:
        """Return what does not depend on the targets: the inputs."""
        return X

    def predict(self, state: ExpansionState, x: Float[Array, " d"]) -> Prediction:
        """Predict one row."""
        return self._predict(state, x)[0]

    def _predict(self, state: ExpansionState, x: Array) -> tuple[Prediction, Array]:
        each = jnp.einsum("bn,bnc->nc", self._values(state.points - x[None]), state.theta)
        weights = jnp.exp(state.log_w)
        return Prediction(weights @ each, weights), each

    def step(
        self, state: ExpansionState, x: Float[Array, " d"], y: Float[Array, " e"]
    ) -> tuple[ExpansionState, Prediction]:
        """Predict one row, then keep it, in place of the oldest if `capacity` are kept."""
        prediction, each = self._predict(state, x)
        t = state.t + 1
        slot = state.t % self.capacity
        slope = jax.vmap(self.loss.gradient, (0, None))(each, y)
        loss = jax.vmap(self.loss.value, (0, None))(each, y)
        new = ExpansionState(
            state.points.at[slot].set(x),
            state.theta.at[slot].set(-self.rate(t) * self.slope * slope),
            normalise(state.log_w + jnp.log(self.discount) * loss),
            t,
        )
        return new, prediction

    def _values(self, difference: Float[Array, "b d"]) -> Float[Array, "b n"]:
        """Evaluate every kernel at every difference, by the distance alone where a kernel depends on nothing else."""
        distance = jnp.sqrt(jnp.square(difference).sum(-1, keepdims=True))
        found = []
        for kernel, scales in zip(self.kernels, self.lengthscales, strict=True):
            r = distance if kernel.rotation_invariant else difference
            found.append(kernel.value(r[:, None, :] / scales[None, :, None]))
        return jnp.concatenate(found, axis=1)


def group_by_kernel(dictionary: KernelDictionary) -> tuple[tuple[Kernel, ...], tuple[Float[Array, " _"], ...]]:
    """Group a dictionary as `OMKR` takes it: neighbours with the same kernel together."""
    groups: list[tuple[Kernel, list[float]]] = []
    for kernel, scale in zip(dictionary.kernels, dictionary.lengthscales, strict=True):
        if groups and groups[-1][0] == kernel:
            groups[-1][1].append(scale)
        else:
            groups.append((kernel, [scale]))
    return tuple(kernel for kernel, _ in groups), tuple(jnp.asarray(scales) for _, scales in groups)
