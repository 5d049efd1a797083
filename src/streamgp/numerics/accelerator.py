"""The door to JAX and equinox, which only accelerators and the annexes' gradients need: they are an extra."""

try:
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    from jax import Array
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"expected JAX and equinox, which this model or device needs, but {error.name} is not installed; "
        f'install them by pip install "streamgp[gpu]"',
        name=error.name,
    ) from error

from streamgp.numerics.loading import jax_is_loaded

__all__ = ["Array", "eqx", "jax", "jnp"]

jax_is_loaded()
