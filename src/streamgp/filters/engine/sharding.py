"""The experts of an ensemble over several devices: cores, GPUs, or those of several hosts (`jax.distributed`).

The bases of every group are one array axis, cut into equal runs, one for each device. A device runs
`streamgp.filters.engine.xla` on its own run, and keeps its beliefs from one batch to the next; only the
predictions travel.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.experimental.multihost_utils import process_allgather
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Bool, Float

from streamgp.core import AnyArray
from streamgp.filters.engine import xla
from streamgp.filters.engine.blocks import Blocks, Group
from streamgp.filters.kalman import FilterState
from streamgp.numerics.threads import one_blas_thread

AXIS = "experts"
_SPLIT, _EVERYWHERE = PartitionSpec(AXIS), PartitionSpec()


class Sharded(eqx.Module):
    """The beliefs of a group, over the devices of a mesh.

    Attributes
    ----------
    padded
        The beliefs, (slots, R): JAX splits an axis into equal parts only, so that some slots may hold no basis.
    slots
        The slot of each of the G bases.
    """

    padded: FilterState
    slots: tuple[int, ...] = eqx.field(static=True)
    mesh: Mesh = eqx.field(static=True)

    def unsharded(self) -> FilterState:
        """Return the beliefs (G, R) as NumPy arrays (inside a transformation, as traced ones).

        Where several processes hold them, all have to call it.
        """
        return jax.tree.map(lambda a: a[np.asarray(self.slots)], _fetch(self.padded))

    stored = unsharded  # what a checkpoint holds: it may be resumed on other devices


def shard(filters: Sequence[FilterState | Sharded], devices: Sequence[Any]) -> tuple[Sharded, ...]:
    """Lay the beliefs of all groups out over `devices`; those of other processes take part as well."""
    if not devices:
        raise ValueError("shard: expected at least one device, got none; jax.devices() are all that there are")
    plain = [beliefs.unsharded() if isinstance(beliefs, Sharded) else beliefs for beliefs in filters]
    mesh = Mesh(np.asarray(devices), (AXIS,))
    sharding = NamedSharding(mesh, _SPLIT)
    slots = _assign_slots([beliefs.cov.shape for beliefs in plain], len(devices))

    def lay_out(a: AnyArray, slots: tuple[int, ...]) -> jax.Array:
        padded = np.asarray(a)[_sources(slots, len(devices))]
        # Each process fills its own devices, and none waits for another.
        return jax.make_array_from_callback(padded.shape, sharding, lambda part: padded[part])

    return tuple(
        Sharded(jax.tree.map(lambda a, at=at: lay_out(a, at), beliefs), at, mesh)
        for beliefs, at in zip(plain, slots, strict=True)
    )


def update_groups(
    groups: Sequence[Group], beliefs: Sequence[Sharded], blocks: Blocks, live: Sequence[np.ndarray]
) -> tuple[list[Sharded], list[tuple], Bool[np.ndarray, " rows"]]:
    """Run `xla.update_group` for every group, each device its own bases; predictions come back as NumPy arrays."""
    padded, slots, mesh = _unpack(beliefs)
    with _devices_as_threads(mesh):
        padded, parts, outside = _update(tuple(groups), padded, blocks, tuple(live), slots, mesh)
        parts, outside = _fetch((parts, outside))
    states = [Sharded(new, old.slots, mesh) for new, old in zip(padded, beliefs, strict=True)]
    return states, _without_padding(parts, slots), outside.any(0)


def predict_groups(
    groups: Sequence[Group],
    beliefs: Sequence[Sharded],
    X: Float[AnyArray, "n d"],
    tau: Float[AnyArray, " n"],
    live: Sequence[np.ndarray],
) -> list[tuple]:
    """Run `xla.predict_group` for every group, each device its own bases; who is `live` makes no difference here."""
    padded, slots, mesh = _unpack(beliefs)
    return _without_padding(_fetch(_predict(tuple(groups), padded, X, tau, slots, mesh)), slots)


@eqx.filter_jit
def _update(groups: tuple, beliefs: tuple, blocks: Blocks, live: tuple, slots: tuple, mesh: Mesh) -> tuple:
    def on_device(groups: tuple, beliefs: tuple, live: tuple, blocks: Blocks) -> tuple:
        runs = [
            xla.update_group(group, belief, blocks, alive, _platform(mesh))
            for group, belief, alive in zip(groups, beliefs, live, strict=True)
        ]
        filters, parts, outside = zip(*runs, strict=True)
        return filters, parts, jnp.stack(outside).any(0)[None]

    alive = tuple(_padded(flags, at, mesh) & _taken(at, mesh)[:, None] for flags, at in zip(live, slots, strict=True))
    groups = tuple(_padded(group, at, mesh) for group, at in zip(groups, slots, strict=True))
    return _on_all(on_device, mesh, arguments=4)(groups, beliefs, alive, blocks)


@eqx.filter_jit
def _predict(groups: tuple, beliefs: tuple, X: AnyArray, tau: AnyArray, slots: tuple, mesh: Mesh) -> tuple:
    def on_device(groups: tuple, beliefs: tuple, rows: tuple) -> tuple:
        X, tau = rows
        pairs = zip(groups, beliefs, strict=True)
        return tuple(xla.predict_group(group, belief, X, tau, _platform(mesh)) for group, belief in pairs)

    groups = tuple(_padded(group, at, mesh) for group, at in zip(groups, slots, strict=True))
    return _on_all(on_device, mesh, arguments=3)(groups, beliefs, (X, tau))


def _on_all(run: Any, mesh: Mesh, arguments: int) -> Any:
    """Map `run` over the devices, each with its part of all arguments but the last, which goes to each whole."""
    in_specs = (*[_SPLIT] * (arguments - 1), _EVERYWHERE)
    # The check would have both branches of a condition vary with the device; one that skips the work does not.
    return jax.shard_map(run, mesh=mesh, in_specs=in_specs, out_specs=_SPLIT, check_vma=False)


def _assign_slots(shapes: Sequence[tuple[int, ...]], devices: int) -> list[tuple[int, ...]]:
    """Assign a slot to each basis of each group, from the shapes of their covariances (G, R, F, F).

    A group's devices differ by one basis at most; those that have the least to do so far get one more.
    """
    slots, load = [], np.zeros(devices)
    for G, *each in shapes:
        counts = np.full(devices, G // devices)
        counts[np.argsort(load, kind="stable")[: G % devices]] += 1
        load += counts * float(np.prod(each))
        starts = counts.max() * np.arange(devices)
        slots.append(tuple(int(start) + i for start, n in zip(starts, counts, strict=True) for i in range(n)))
    return slots


def _sources(slots: tuple[int, ...], devices: int) -> np.ndarray:
    """Return which basis each slot holds; one without a basis of its own, a copy of the first."""
    sources = np.zeros(devices * -(-len(slots) // devices), int)
    sources[list(slots)] = np.arange(len(slots))
    return sources


def _taken(slots: tuple[int, ...], mesh: Mesh) -> Bool[np.ndarray, " slots"]:
    """Return which slots hold a basis of their own."""
    return np.isin(np.arange(len(_sources(slots, mesh.size))), slots)


def _padded(tree: Any, slots: tuple[int, ...], mesh: Mesh) -> Any:
    """Return arrays over the bases as arrays over the slots."""
    return jax.tree.map(lambda a: jnp.asarray(a)[_sources(slots, mesh.size)], tree)


def _without_padding(parts: Sequence[tuple], slots: Sequence[tuple[int, ...]]) -> list[tuple]:
    return [jax.tree.map(lambda a, at=at: a[np.asarray(at)], part) for part, at in zip(parts, slots, strict=True)]


def _unpack(beliefs: Sequence[Sharded]) -> tuple[tuple, tuple, Mesh]:
    return tuple(b.padded for b in beliefs), tuple(b.slots for b in beliefs), beliefs[0].mesh


def _devices_as_threads(mesh: Mesh) -> AbstractContextManager:
    """Limit BLAS to one thread on a CPU: XLA leaves factors and solves to it, where devices would wait."""
    return one_blas_thread() if _platform(mesh) == "cpu" else nullcontext()


def _platform(mesh: Mesh) -> str:
    return mesh.devices.flat[0].platform


def _fetch(tree: Any) -> Any:
    """Return arrays of several devices as NumPy arrays; those of other processes by an exchange among them."""

    def fetch(a: jax.Array) -> AnyArray:
        if isinstance(a, Tracer):
            return a
        return np.asarray(a if a.is_fully_addressable else process_allgather(a, tiled=True))

    return jax.tree.map(fetch, tree)
