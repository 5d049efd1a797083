"""Parts of every online learner of many kernels: random features, gradient steps, weights in logarithms."""

from typing import NamedTuple

from jaxtyping import Float, Int

from streamgp.bases.kernels import SamplingMethod
from streamgp.bases.trigonometry import sines_and_cosines
from streamgp.numerics import keys
from streamgp.numerics.accelerator import Array, jax, jnp
from streamgp.numerics.arrays import AnyArray
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.keys import Key
from streamgp.numerics.module import Module
from streamgp.research.multikernel.graph import KernelDictionary
from streamgp.research.multikernel.losses import Loss


@register
class FeatureBank(Module):
    """m frequencies of each of N kernels: z_i(x) = sqrt(1/m) [sin(w_ij'x), cos(w_ij'x)], F = 2m, |z_i(x)| = 1."""

    frequencies: Float[Array, "n m d"]

    @property
    def num_kernels(self) -> int:
        """Return N."""
        return self.frequencies.shape[0]

    @property
    def num_features(self) -> int:
        """Return F, the number of features of each kernel."""
        return 2 * self.frequencies.shape[1]

    @property
    def num_inputs(self) -> int:
        """Return d."""
        return self.frequencies.shape[2]

    def __call__(self, X: Float[AnyArray, "rows d"]) -> Float[Array, "rows n f"]:
        """Compute the features of all kernels."""
        return self._of(jnp.einsum("rd,nmd->rnm", X, self.frequencies))

    def of(self, x: Float[Array, " d"], which: Int[Array, " k"]) -> Float[Array, "k f"]:
        """Compute the features of some kernels at one row, and of no others."""
        return self._of(self.frequencies[which] @ x)

    def _of(self, angle: Float[Array, "*n m"]) -> Float[Array, "*n f"]:
        return jnp.asarray(sines_and_cosines(angle, self.frequencies.shape[1] ** -0.5))


def draw_features(
    dictionary: KernelDictionary,
    dim: int,
    num_features: int,
    key: Key,
    method: SamplingMethod = "monte-carlo",
) -> FeatureBank:
    """Draw num_features // 2 frequencies of each kernel, independently (Rahimi and Recht 2007)."""
    rng, pairs = keys.generator(key), max(1, num_features // 2)
    drawn = [
        kernel.sample_frequencies(rng, pairs, dim, method) / scale
        for kernel, scale in zip(dictionary.kernels, dictionary.lengthscales, strict=True)
    ]
    return FeatureBank(jnp.asarray(jnp.stack([jnp.asarray(w) for w in drawn])))


class Prediction(NamedTuple):
    """The prediction of a row, made before its target is seen.

    Attributes
    ----------
    values
        The function values.
    weights
        The weight of each kernel in them; zero for those that were not evaluated. They sum to one.
    """

    values: Float[Array, " c"]
    weights: Float[Array, " n"]


def descend(
    theta: Float[Array, "k f c"],
    z: Float[Array, "k f"],
    slope: Float[Array, "k c"],
    rate: Float[Array, "*k"],
    penalty: float,
    radius: float,
) -> Float[Array, "k f c"]:
    """Take a gradient step of loss(theta'z) + penalty |theta|^2 for each kernel, projected to |theta| <= radius."""
    gradient = z[:, :, None] * slope[:, None, :] + 2.0 * penalty * theta
    theta = theta - jnp.broadcast_to(rate, theta.shape[:1])[:, None, None] * gradient
    if radius == float("inf"):
        return theta
    size = jnp.sqrt(squared_norm(theta))
    return theta * jnp.minimum(1.0, radius / jnp.maximum(size, radius * 1e-9))[:, None, None]


def take_step(
    loss: Loss,
    theta: Float[Array, "k f c"],
    z: Float[Array, "k f"],
    each: Float[Array, "k c"],
    y: Float[Array, " e"],
    rate: Float[Array, "*k"],
    penalty: float,
    radius: float,
    weights_after: bool,
) -> tuple[Float[Array, "k f c"], Float[Array, " k"]]:
    """Return the coefficients after a step (see `descend`), and the losses that weigh the kernels.

    `each` are the values theta'z; with `weights_after` the losses are those of the new coefficients.
    """
    new = descend(theta, z, jax.vmap(loss.gradient, (0, None))(each, y), rate, penalty, radius)
    scored, values = (new, jnp.einsum("kf,kfc->kc", z, new)) if weights_after else (theta, each)
    return new, jax.vmap(loss.value, (0, None))(values, y) + penalty * squared_norm(scored)


def squared_norm(theta: Float[Array, "k f c"]) -> Float[Array, " k"]:
    """Compute |theta|^2 of each kernel."""
    return jnp.sum(jnp.square(theta), axis=(1, 2))


def normalise(log_weights: Float[Array, " k"]) -> Float[Array, " k"]:
    """Normalise log weights so that the weights sum to one."""
    return jax.nn.log_softmax(log_weights)
