"""Bases written out term by term: linear, polynomial, and any function of the user's."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from streamgp.bases.base import Basis
from streamgp.numerics.arrays import AnyArray, namespace
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
    """phi(x) = any function of yours, applied to a block of rows; F is found by applying it to rows of zeros.

    Its kernel is phi(x)'phi(x') exactly.

    Parameters
    ----------
    function
        Maps rows of shape (n, D), a NumPy array, to features of shape (n, F), each row by itself. An accelerator
        hands it arrays of JAX: for one, write it in jax.numpy, which does for NumPy's arrays too.
    inputs
        D, the number of inputs.

    Raises
    ------
    ValueError
        If `function` does not return one row of features for each row of inputs.
    """

    function: Callable[[Any], Any] = static_field()
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
        # Zeros may be outside of what it is defined for.
        with np.errstate(all="ignore"):
            return np.shape(self.function(np.zeros((rows, self.inputs))))

    @property
    def num_features(self) -> int:
        """Return F, found by applying `function` to one row."""
        return self._output_shape(1)[1]

    @property
    def num_inputs(self) -> int:
        """Return D, as it was given."""
        return self.inputs

    @property
    def largest_product(self) -> float:
        """Return infinity: what `function` computes is not known."""
        return np.inf

    def __call__(self, X: Float[AnyArray, "n d"]) -> Float[AnyArray, "*stack n f"]:
        """Apply `function`; of NumPy's rows the features are NumPy's, whatever it computes with."""
        Phi = self.function(X)
        return np.asarray(Phi, X.dtype) if namespace(X) is np else Phi

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
