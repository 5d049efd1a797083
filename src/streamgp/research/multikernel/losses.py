"""Convex losses of the predicted function values, with their gradients."""

from jaxtyping import Float

from streamgp.likelihoods import Categorical
from streamgp.likelihoods.categorical import contrasts
from streamgp.numerics.accelerator import Array, jax, jnp
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.module import Module, static_field


@register
class SquaredLoss(Module):
    """|f - y|^2, over E targets."""

    num_outputs: int = static_field()

    @property
    def num_functions(self) -> int:
        """Return the number of functions that each kernel learns."""
        return self.num_outputs

    def value(self, f: Float[Array, " c"], y: Float[Array, " e"]) -> Float[Array, ""]:
        """Compute the loss of the prediction f for the target y."""
        return jnp.sum(jnp.square(f - y))

    def gradient(self, f: Float[Array, " c"], y: Float[Array, " e"]) -> Float[Array, " c"]:
        """Compute the gradient of the loss in f."""
        return 2.0 * (f - y)


@register
class LogisticLoss(Module):
    """-log p(y | f) of one of K classes under the softmax; of two classes the logistic loss.

    The K - 1 functions are contrasts of the classes, see `streamgp.likelihoods.Categorical`: of two classes f is the
    log odds over sqrt(2).
    """

    likelihood: Categorical

    @property
    def num_outputs(self) -> int:
        """Return 1: targets are one column of class numbers."""
        return 1

    @property
    def num_functions(self) -> int:
        """Return the number of functions that each kernel learns."""
        return self.likelihood.num_latents

    def value(self, f: Float[Array, " c"], y: Float[Array, " e"]) -> Float[Array, ""]:
        """Compute the loss of the prediction f for the target y."""
        logits = f @ jnp.asarray(contrasts(self.likelihood.num_classes), f.dtype) + self.likelihood.intercept
        # Of two classes, this form is far cheaper to differentiate.
        if self.likelihood.num_classes == 2:
            return -jax.nn.log_sigmoid((2.0 * y[0] - 1.0) * (logits[1] - logits[0]))
        return -jax.nn.log_softmax(logits)[y[0].astype(int)]

    def gradient(self, f: Float[Array, " c"], y: Float[Array, " e"]) -> Float[Array, " c"]:
        """Compute the gradient of the loss in f."""
        return jax.grad(self.value)(f, y)


Loss = SquaredLoss | LogisticLoss
