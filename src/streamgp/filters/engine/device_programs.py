"""An accelerator: the programs that were compiled for it, what it holds of a model, and groups of experts at work."""

from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Bool, Float

from streamgp.filters.engine.blocks import Group, operations
from streamgp.filters.engine.cpu import as_numpy
from streamgp.filters.engine.device_blocks import BlockRows, Motion, Told, learn_packed, predict_block
from streamgp.filters.kalman import FilterState, Predicted
from streamgp.numerics import tree
from streamgp.numerics.accelerator import jax
from streamgp.numerics.batching import split_batches
from streamgp.numerics.precision import float64

SIZES = (64, 256)  # rows of a block: few programs, and long products where there are many rows
# Operations that the processor does for such a group before programs are compiled, which takes some ten seconds of
# one core while the others go on: a shorter run is over by then.
BEFORE_COMPILING = 1e12
SHARE = 0.25  # of the memory that the beliefs of one group may take: there are two of them while they are learnt


class Rows(NamedTuple):
    """Rows to learn: `clock` is the time since the row before the first; NaN may be where `mask` is false."""

    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, "n e"]
    mask: Bool[np.ndarray, " n"]
    clock: Float[np.ndarray, " n"]
    extra: Float[np.ndarray, " n"] | None


class Programs(NamedTuple):
    """The compiled steps of one form of group: a block to learn, by its rows, and a block to predict."""

    learn: dict[int, Any]
    predict: Any


class Accelerator:
    """One accelerator.

    Parameters
    ----------
    device
        As JAX has it.
    """

    def __init__(self, device: Any) -> None:
        self.device = device
        self._memory = (device.memory_stats() or {}).get("bytes_limit", np.inf)
        self._programs: dict[Any, Future[Programs | None]] = {}
        self._done: dict[Any, float] = {}  # operations of groups that the processor has served
        self._models: WeakKeyDictionary[Group, Group] = WeakKeyDictionary()
        self._compiling = ThreadPoolExecutor(1, thread_name_prefix="streamgp-compiles")

    @classmethod
    def first(cls) -> "Accelerator | None":
        """Return the first that JAX finds."""
        found = [device for device in jax.devices() if device.platform != "cpu"]
        return cls(found[0]) if found else None

    def holds(self, array: Any) -> bool:
        """Return whether it holds an array of JAX."""
        return self.device in array.devices()

    def programs(self, group: Group, beliefs: FilterState, X: np.ndarray, waits: bool) -> Programs | None:
        """Return the programs for such a group and such inputs.

        None where it cannot serve them, as bases that are not traced by JAX; or not yet: unless it `waits`, they are
        compiled in the background once the group has had enough work.
        """
        if 8.0 * np.prod(beliefs.cov.shape) > SHARE * self._memory:
            return None
        motion = Motion.of(group.dynamics)
        shapes = tuple((a.shape, a.dtype) for a in map(_plain, tree.leaves((group, beliefs))))
        key = (tree.form((group, beliefs)), shapes, motion, X.shape[1])
        if key not in self._programs:
            done = self._done.get(key, 0.0) + operations(len(X), beliefs.mean[..., 0, 0].size, shapes[-1][0][-1])
            self._done[key] = done
            if not waits and done < BEFORE_COMPILING:
                return None
            like = self._described(group), self._described(beliefs), motion, X.shape[1]
            self._programs[key] = self._compiling.submit(self._compile, *like)
        future = self._programs[key]
        return future.result() if waits or future.done() else None

    def _described(self, given: Any) -> Any:
        """Return what arrays are, in place of them, on this accelerator."""
        there = jax.sharding.SingleDeviceSharding(self.device)
        return tree.map(lambda a: jax.ShapeDtypeStruct(np.shape(a), _plain(a).dtype, sharding=there), given)

    def _compile(self, group: Any, beliefs: Any, motion: Motion, inputs: int) -> Programs | None:
        width, longest = inputs + beliefs.mean.shape[-1] + 3, max(SIZES)
        blocks = {size: self._described(np.zeros((size, width))) for size in SIZES}
        live = self._described(np.ones(beliefs.mean.shape[:2], bool))
        X, tau = self._described((np.zeros((longest, inputs)), np.zeros(longest)))
        learn = jax.jit(partial(learn_packed, motion=motion, inputs=inputs))
        with float64(), jax.numpy_rank_promotion("allow"):
            try:
                learns = {size: learn.lower(group, beliefs, rows, live).compile() for size, rows in blocks.items()}
                return Programs(learns, jax.jit(predict_block).lower(group, beliefs, X, tau).compile())
            except (TypeError, jax.errors.JAXTypeError, jax.errors.JAXIndexError):  # a basis of plain Python
                return None

    def update(
        self, programs: Programs, group: Group, beliefs: FilterState, given: Any, live: Bool[np.ndarray, "g r"]
    ) -> tuple[FilterState, Predicted, Bool[np.ndarray, " rows"]] | None:
        """Let experts learn the rows given, as `Rows` has them.

        None where numbers were lost, which the processor's engine knows to repair.
        """
        rows = Rows(*given)
        with float64():
            model = self._model(group)
            beliefs = jax.device_put(beliefs, self.device)
            alive, live = live, jax.device_put(live, self.device)
            parts, kept = [], []
            for at, size in split_batches(len(rows.X), SIZES):
                # The device is at work on the block before while these rows are put together.
                block = jax.device_put(_block(rows, at, size).packed(), self.device)
                beliefs, told = programs.learn[size](model, beliefs, block, live)
                for a in told:
                    a.copy_to_host_async()
                parts.append(told)
                kept.append(at.stop - at.start)
            found = [Told(*map(np.asarray, told)) for told in parts]
        if not all(told.flags[-1] for told in found):
            return None
        outputs = rows.y.shape[1]
        predicted = tree.map(
            lambda *a: np.concatenate([one[:, :, :n] for one, n in zip(a, kept, strict=True)], axis=2)[:, :, None],
            *(told.unpacked(outputs) for told in found),
        )
        loc = np.where(live_of := alive[:, :, None, None, None], predicted.loc, 0.0)
        var = np.where(live_of[..., 0], predicted.var, 1.0)
        is_outlier = None if predicted.is_outlier is None else predicted.is_outlier & live_of[..., 0]
        outside = np.concatenate([told.flags[:n] > 0.0 for told, n in zip(found, kept, strict=True)])
        return beliefs, Predicted(loc, var, is_outlier), outside

    def predict(
        self,
        programs: Programs,
        group: Group,
        beliefs: FilterState,
        X: Float[np.ndarray, "n d"],
        tau: Float[np.ndarray, " n"],
    ) -> Predicted:
        """Predict mean and variance of every row by every expert."""
        size, parts = max(SIZES), []
        with float64():
            model = self._model(group)
            beliefs = jax.device_put(beliefs, self.device)
            for at, _ in split_batches(len(X), (size,)):
                block = (_padded(X[at], size), _padded(tau[at], size))
                parts.append(programs.predict(model, beliefs, *jax.device_put(block, self.device)))
            loc, var = (
                np.concatenate(each, axis=2)[:, :, : len(X)] for each in zip(*jax.device_get(parts), strict=True)
            )
        return Predicted(loc, var, None)

    def _model(self, group: Group) -> Group:
        """Return a group whose arrays are here; they are brought once."""
        if group not in self._models:
            self._models[group] = jax.device_put(as_numpy(group), self.device)
        return self._models[group]


def _plain(a: Any) -> Any:
    """Return an array as it is, and a number as one."""
    return a if hasattr(a, "dtype") else np.asarray(a)


def _block(rows: Rows, at: slice, size: int) -> BlockRows:
    """Return some rows as a block of so many, whose clock begins at the row before; the rest are not seen."""
    clock = rows.clock[at] - (rows.clock[at.start - 1] if at.start else 0.0)
    n = at.stop - at.start
    seen = _padded(rows.mask[at], size)
    X = np.where(seen[:, None], _padded(rows.X[at], size), 0.0)
    y = np.where(seen[:, None], _padded(rows.y[at], size), 0.0)
    extra = np.zeros(size) if rows.extra is None else _padded(rows.extra[at], size)
    return BlockRows(X, y, seen, np.pad(clock, (0, size - n), mode="edge"), extra)


def _padded(a: np.ndarray, size: int) -> np.ndarray:
    return np.pad(a, [(0, size - len(a))] + [(0, 0)] * (a.ndim - 1))
