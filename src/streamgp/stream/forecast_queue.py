"""What waits while a stream is forecast h rows ahead: inputs for their targets, and forecasts for their rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from streamgp.likelihoods import Predictive
from streamgp.numerics import tree
from streamgp.numerics.checkpoint.encoding import register

register(Predictive)


@register
@dataclass(frozen=True)
class Origins:
    """The inputs of the last h rows, oldest first, whose targets h rows later have not come; NaN before the first.

    With h = 0 nothing waits: a row's inputs and its own target are a pair.

    Attributes
    ----------
    inputs
        As the model takes them.
    kinds
        Whether they were beyond bounds: see `streamgp.stream.inputs`.
    """

    inputs: Float[np.ndarray, "h w"]
    kinds: Int[np.ndarray, " h"]

    @classmethod
    def empty(cls, horizon: int, width: int) -> "Origins":
        """Return what waits before any row."""
        return cls(np.full((horizon, width), np.nan), np.zeros(horizon, np.int64))

    def paired(
        self, X: Float[np.ndarray, "n w"], kinds: Int[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, "n w"], Int[np.ndarray, " n"], "Origins"]:
        """Return the inputs h rows before each of the next targets, and their kinds; and what waits after them."""
        if not len(self.inputs):
            return X, kinds, self
        n, joined, of_all = len(X), np.concatenate([self.inputs, X]), np.concatenate([self.kinds, kinds])
        return joined[:n], of_all[:n], Origins(joined[n:], of_all[n:])


@register
@dataclass(frozen=True)
class Forecasts:
    """The forecasts of the rows to come, as they were made, in the units of the targets.

    Parameters
    ----------
    parts
        Segments of consecutive rows, each with the same experts: the weights of the experts (and of the weight
        rules, where there are several), and what they forecast.
    """

    parts: tuple[tuple[Any, Any], ...] = ()

    def exchange(self, made: Sequence[tuple[Any, Any]]) -> tuple[tuple[Any, Any], "Forecasts"]:
        """Take in forecasts of as many rows as have come; return those of the rows that came, and what waits.

        The rows that came must have been forecast by the same experts.
        """
        n = sum(map(_rows, made))
        parts = _joined([*self.parts, *made])
        came = tree.map(lambda a: a[:n], parts[0])
        parts[0] = tree.map(lambda a: a[n:], parts[0])
        return came, Forecasts(tuple(filter(_rows, parts)))

    def with_last(self, made: tuple[Any, Any]) -> "Forecasts":
        """Return the same with another forecast of the last row."""
        *parts, last = self.parts
        return Forecasts(tuple(_joined([*parts, tree.map(lambda a: a[:-1], last), made])))


def _joined(parts: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return the parts, those of the same experts that follow each other as one."""
    joined: list[tuple[Any, Any]] = []
    for part in filter(_rows, parts):
        fits = bool(joined) and _shapes(joined[-1]) == _shapes(part)
        joined.append(tree.map(lambda *a: np.concatenate(a), joined.pop(), part) if fits else part)
    return joined


def _rows(part: tuple[Any, Any]) -> int:
    return len(part[0].loc)


def _shapes(part: tuple[Any, Any]) -> list[tuple[int, ...]]:
    """Return the shapes of all arrays, but for the number of rows."""
    return [np.shape(a)[1:] for a in tree.leaves(part)]
