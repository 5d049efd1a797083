"""All kernels at every row: Raker, and AdaRaker for environments that change (Shen, Chen and Giannakis 2019)."""

from jaxtyping import Float, Int

from streamgp.numerics.accelerator import Array, jax, jnp
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.keys import Key
from streamgp.numerics.module import Module, static_field
from streamgp.research.multikernel.experts import FeatureBank, Prediction, normalise, take_step
from streamgp.research.multikernel.losses import Loss
from streamgp.research.multikernel.rates import Rate


@register
class RakerState(Module):
    """Coefficients of every kernel, log weights, rows learnt."""

    theta: Float[Array, "n f c"]
    log_w: Float[Array, " n"]
    t: Int[Array, ""]


@register
class Raker(Module):
    """Online gradient descent for every kernel, exponential weights over them (Shen et al. 2019, Alg. 1).

    Parameters
    ----------
    bank
        Random features.
    loss
        Loss of the predictions.
    rate
        eta_t, the rate of the gradient steps and of the weights.
    penalty
        lambda in loss + lambda |theta|^2.
    radius
        Bound on |theta|, kept by projection.
    weights_after
        Whether the loss that weighs a kernel is taken after its step, with the step's own target, as in the authors'
        script; the paper takes it before.
    """

    bank: FeatureBank
    loss: Loss
    rate: Rate
    penalty: float = static_field(default=1e-3)
    radius: float = static_field(default=float("inf"))
    weights_after: bool = static_field(default=False)

    def init(self, key: Key) -> RakerState:
        """Return the state before any row: coefficients zero, equal weights; `key` is not used."""
        n = self.bank.num_kernels
        dtype = self.bank.frequencies.dtype
        theta = jnp.zeros((n, self.bank.num_features, self.loss.num_functions), dtype)
        return RakerState(theta, jnp.full(n, -jnp.log(n), dtype), jnp.zeros((), int))

    def prepare_rows(
        self, state: RakerState, X: Float[Array, "n d"], steps: Int[Array, " n"]
    ) -> Float[Array, "n k f"]:
        """Compute what does not depend on the targets: the features."""
        return self.bank(X)

    def predict(self, state: RakerState, z: Float[Array, "k f"]) -> Prediction:
        """Predict one row."""
        return self._predict(state, z)[0]

    def _predict(self, state: RakerState, z: Array) -> tuple[Prediction, Array]:
        each = jnp.einsum("nf,nfc->nc", z, state.theta)
        weights = jnp.exp(state.log_w)
        return Prediction(weights @ each, weights), each

    def step(self, state: RakerState, z: Float[Array, "k f"], y: Float[Array, " e"]) -> tuple[RakerState, Prediction]:
        """Predict one row, then take a step of every kernel and of the weights."""
        prediction, each = self._predict(state, z)
        t = state.t + 1
        eta = self.rate(t)
        bounds = self.penalty, self.radius, self.weights_after
        theta, loss = take_step(self.loss, state.theta, z, each, y, eta, *bounds)
        return RakerState(theta, normalise(state.log_w - eta * loss), t), prediction


@register
class AdaRakerState(Module):
    """Coefficients and log weights of every level's instance of Raker, log weights of the levels, rows learnt."""

    theta: Float[Array, "j n f c"]
    log_w: Float[Array, "j n"]
    log_h: Float[Array, " j"]
    t: Int[Array, ""]


@register
class AdaRaker(Module):
    """Instances of Raker on intervals of 1, 2, 4, ... rows, weighed by their gain (Shen et al. 2019, Alg. 2).

    At level j an instance begins anew at every multiple of 2^j rows, with the rate min(1/2, scale / 2^(j/2)): short
    ones adapt at once, long ones learn more. There are `levels` of them; the longest interval has 2^(levels - 1)
    rows, and more than that is never remembered.

    Parameters
    ----------
    bank, loss, penalty, radius
        As in `Raker`.
    levels
        Number of interval lengths.
    scale
        Scale of the rates.
    """

    bank: FeatureBank
    loss: Loss
    penalty: float = static_field(default=1e-3)
    radius: float = static_field(default=float("inf"))
    levels: int = static_field(default=16)
    scale: float = static_field(default=1.0)

    @property
    def _rates(self) -> Float[Array, " j"]:
        length = 2.0 ** jnp.arange(self.levels, dtype=self.bank.frequencies.dtype)
        return jnp.minimum(0.5, self.scale / jnp.sqrt(length))

    def init(self, key: Key) -> AdaRakerState:
        """Return the state before any row: coefficients zero, equal weights; `key` is not used."""
        n, dtype = self.bank.num_kernels, self.bank.frequencies.dtype
        theta = jnp.zeros((self.levels, n, self.bank.num_features, self.loss.num_functions), dtype)
        log_w = jnp.full((self.levels, n), -jnp.log(n), dtype)
        return AdaRakerState(theta, log_w, jnp.zeros(self.levels, dtype), jnp.zeros((), int))

    def prepare_rows(
        self, state: AdaRakerState, X: Float[Array, "n d"], steps: Int[Array, " n"]
    ) -> Float[Array, "n k f"]:
        """Compute what does not depend on the targets: the features."""
        return self.bank(X)

    def predict(self, state: AdaRakerState, z: Float[Array, "k f"]) -> Prediction:
        """Predict one row; instances whose interval begins with it start at zero."""
        return self._predict(state, z)[0]

    def _predict(self, state: AdaRakerState, z: Array) -> tuple[Prediction, tuple[Array, ...]]:
        t = state.t + 1
        length = 2 ** jnp.arange(self.levels)
        begins, lives = t % length == 0, t >= length
        log_w = jnp.where(begins[:, None], -jnp.log(self.bank.num_kernels), state.log_w)
        log_h = jnp.where(begins, jnp.log(self._rates), state.log_h)
        each = jnp.einsum("nf,jnfc->jnc", z, state.theta)
        each = jnp.where(begins[:, None, None], 0.0, each)
        h = jnp.exp(normalise(jnp.where(lives, log_h, -jnp.inf)))
        weights = jnp.exp(log_w)
        levels = jnp.einsum("jn,jnc->jc", weights, each)
        return Prediction(h @ levels, h @ weights), (each, levels, log_w, log_h, begins)

    def step(
        self, state: AdaRakerState, z: Float[Array, "k f"], y: Float[Array, " e"]
    ) -> tuple[AdaRakerState, Prediction]:
        """Predict one row, then take a step of every kernel at every level, and of all weights."""
        prediction, (each, levels, log_w, log_h, begins) = self._predict(state, z)
        theta = jnp.where(begins[:, None, None, None], 0.0, state.theta)

        def step(theta: Array, log_w: Array, each: Array, eta: Array) -> tuple[Array, Array]:
            moved, loss = take_step(self.loss, theta, z, each, y, eta, self.penalty, self.radius, False)
            return moved, normalise(log_w - eta * loss)

        rates = self._rates
        theta, log_w = jax.vmap(step)(theta, log_w, each, rates)
        gain = self.loss.value(prediction.values, y) - jax.vmap(self.loss.value, (0, None))(levels, y)
        return AdaRakerState(theta, log_w, log_h + rates * gain, state.t + 1), prediction
