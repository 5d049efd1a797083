"""Bases written out term by term: linear, polynomial, and any function of the user's."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from streamgp.bases.base import Basis
from streamgp.core import AnyArray, namespace
from streamgp.numerics.checkpoint.encoding import register
from streamgp.numerics.keys import Key
from streamgp.numerics.module import static_field


@register
class Linear(Basis):
    """phi(x) = (1, x_1, ..., x_D): Bayesian linear regression with an intercept; F = D + 1.

    It is its kernel 1 + x'x', exactly.
    """

    inputs: int = static_field()

    @property
    def num_features(self) -> int:
        """Return D + 1: the inputs and the intercept."""
        return self.inputs + 1

    @property
    def num_inputs(self) -> int:
        """Return D."""
        return self.inputs

    def __call__(self, X: Float[AnyArray, "n d"]) -> Float[AnyArray, "*stack n f"]:
        """Place a constant before the inputs."""
        xp = namespace(X)
        return xp.concatenate([xp.ones_like(X[:, :1]), X], axis=1)

    @classmethod
    def from_data(cls, X: Any, *, num_features: int, start: float, key: Key, y: Any = None) -> "Linear":
        """Build it from the number of inputs alone; `num_features` and `start` play no part."""
        return cls(X.shape[1])


@register
class Polynomial(Basis):
    """phi(x) = (1, x, x^2, ..., x^order), powers of each input by itself, power by power; F = 1 + order D.

    It is its kernel 1 + sum_d sum_p (x_d x'_d)^p exactly, without interactions between inputs. Powers grow
    fast outside the range of the warm-up: its predictions there are wild, but their variance grows too.

    Parameters
    ----------
    inputs
        D, the number of inputs.
    order
        The highest power, 2 to 4.

    Raises
    ------
    ValueError
        If `order` is not 2, 3 or 4.
    """

    inputs: int = static_field()
    order: int = static_field(default=3)

    def __post_init__(self) -> None:
        if self.order not in (2, 3, 4):
            raise ValueError(f"order: expected 2, 3 or 4, got {self.order}; use Linear for order 1.")

    @property
    def num_features(self) -> int:
        """Return 1 + order D: the powers of each input and one constant."""
        return 1 + self.order * self.inputs

    @property
    def num_inputs(self) -> int:
        """Return D."""
        return self.inputs

    def __call__(self, X: Float[AnyArray, "n d"]) -> Float[AnyArray, "*stack n f"]:
        """Place a constant before the powers of the inputs, power by power."""
        xp = namespace(X)
        return xp.concatenate([xp.ones_like(X[:, :1]), *(X**p for p in range(1, self.order + 1))], axis=1)

    @classmethod
    def from_data(
        cls, X: Any, *, num_features: int, start: float, key: Key, y: Any = None, order: int = 3
    ) -> "Polynomial":
        """Build it from the number of inputs alone; `num_features` and `start` play no part."""
        return cls(X.shape[1], order)


@register
class UserFunction(Basis):
    """phi(x) = any function of yours, applied to a block of rows; F is found by tracing it once.

    Its kernel is phi(x)'phi(x') exactly.

    Parameters
    ----------
    function
        Maps rows of shape (n, D) to features of shape (n, F), each row by itself, in jax.numpy.
    inputs
        D, the number of inputs.

    Raises
    ------
    ValueError
        If `function` does not return one row of features for each row of inputs.
    """

    function: Callable[[Array], Array] = static_field()
    inputs: int = static_field()

    def __post_init__(self) -> None:
        rows = 3
        shape = self._output_shape(rows)
        if len(shape) != 2 or shape[0] != rows:
            raise ValueError(
                f"function: expected features of shape (n, F) for inputs of shape (n, {self.inputs}), "
                f"got {shape} for n = {rows}; return one row of features for each row of inputs."
            )

    def _output_shape(self, rows: int) -> tuple[int, ...]:
        return jax.eval_shape(self.function, jax.ShapeDtypeStruct((rows, self.inputs), jnp.result_type(float))).shape

    @property
    def num_features(self) -> int:
        """Return F, found by tracing `function` on one row."""
        return self._output_shape(1)[1]

    @property
    def num_inputs(self) -> int:
        """Return D, as it was given."""
        return self.inputs

    def __call__(self, X: Float[AnyArray, "n d"]) -> Float[AnyArray, "*stack n f"]:
        """Apply `function`; compiled and converted back where `X` is NumPy's."""
        # The function is JAX's: compiled once, and its result handed back as what `X` is.
        if namespace(X) is np:
            return np.asarray(_compiled(self.function, X))
        return self.function(jnp.asarray(X))

    @classmethod
    def from_data(cls, X: Any, *, num_features: int, start: float, key: Key, y: Any = None) -> "UserFunction":
        """Raise TypeError always: data do not say which function is meant.

        Raises
        ------
        TypeError
            Always.
        """
        raise TypeError(
            "UserFunction.from_data: expected a function, got only data; build it as UserFunction(function, inputs)."
        )


_compiled = eqx.filter_jit(lambda function, X: function(X))
