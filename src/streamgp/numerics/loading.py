"""What is to be done once JAX is loaded, which most processes never do."""

from collections.abc import Callable
from typing import ClassVar


class _Jax:
    is_loaded = False
    waiting: ClassVar[list[Callable[[], None]]] = []


def once_jax_is_loaded(action: Callable[[], None]) -> None:
    """Do something as soon as JAX is loaded by `streamgp.numerics.accelerator`: now, if it is."""
    if _Jax.is_loaded:
        action()
    else:
        _Jax.waiting.append(action)


def jax_is_loaded() -> None:
    """Do what waits for JAX."""
    _Jax.is_loaded = True
    while _Jax.waiting:
        _Jax.waiting.pop(0)()
