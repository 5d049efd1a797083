"""A basis of a user's regressor: its prediction as a feature, beside a plane."""

import sys
from collections import OrderedDict
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from re import sub
from threading import Lock
from types import FunctionType
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from streamgp.bases.base import Basis
from streamgp.bases.boosted import beside_plane, held_out
from streamgp.numerics import keys
from streamgp.numerics.arrays import AnyArray, is_jax
from streamgp.numerics.checkpoint.encoding import CheckpointError, register
from streamgp.numerics.keys import Key
from streamgp.numerics.module import static_field
from streamgp.numerics.threads import one_openmp_thread

# The most rows that a regressor is fitted to. Of more rows, evenly spaced ones are taken.
MAX_ROWS = 8_192
PREFIX = "learner "
# So many fitted regressors are kept. Any other is fitted again when it is used.
_KEPT = 64
_given: dict[str, Any] = {}
_fitted: OrderedDict[tuple[str, bytes], list[Any]] = OrderedDict()
_lock = Lock()


class LearnerError(ValueError):
    """Raised when a regressor of the user's fails, or predicts what is no number for each row."""


def remember(regressors: Any) -> tuple[str, ...]:
    """Return the names of regressors, by which `Learner` finds them again in this process.

    A name says the class and the parameters that are not the default: checkpoints hold it, and no code.

    Raises
    ------
    TypeError
        If one is no regressor: it has no `fit`, `predict`, `get_params` and `set_params`.
    ValueError
        If there are two of a name, or one draws from a generator that goes on, so that no fit can be made once more.
    """
    if hasattr(regressors, "fit"):
        raise TypeError(f"learners: expected a list of regressors, got {regressors!r} alone; put it into a list")
    names: list[str] = []
    for regressor in regressors:
        lacks = [each for each in ("fit", "predict", "get_params", "set_params") if not hasattr(regressor, each)]
        if lacks or isinstance(regressor, type):
            raise TypeError(
                f"learners: expected regressors with fit and predict, as scikit-learn's, got {regressor!r}, "
                + ("a class; make an instance of it" if isinstance(regressor, type) else f"without {lacks[0]}")
            )
        own = _name(regressor)
        name = PREFIX + own
        if name in names:
            raise ValueError(f"learners: expected regressors that differ, got {own} twice; leave one out")
        for parameter, value in regressor.get_params().items():
            if isinstance(value, np.random.RandomState | np.random.Generator):
                raise ValueError(
                    f"learners: expected None or a whole number as {parameter} of {own}, since every fit may have to "
                    f"be made once more, got a {type(value).__name__}"
                )
        with _lock:
            # This happens when a notebook's cell is run again.
            if name in _given and _code(_given[name]) != _code(regressor):
                for key in [key for key in _fitted if key[0] == name]:
                    del _fitted[key]
            from sklearn.base import clone

            _given[name] = clone(regressor)
        names.append(name)
    return tuple(names)


def check_same(given: Sequence[str], stored: Sequence[str]) -> None:
    """Raise CheckpointError if the names of the regressors given are not those of a checkpoint."""
    if set(given) != set(stored):
        wanted, got = (", ".join(name.removeprefix(PREFIX) for name in names) for names in (stored, given))
        raise CheckpointError(
            f"it was learnt with learners=[{wanted}] and was given learners=[{got}]; checkpoints hold no code, so "
            f"load it with those it was learnt with"
        )


def _name(regressor: Any) -> str:
    """Return the class and the parameters that are not the default, on one line."""
    try:
        # scikit-learn shortens long texts.
        text = regressor.__repr__(N_CHAR_MAX=100_000)
    except TypeError:
        text = repr(regressor)
    # Addresses are removed, since they differ from process to process.
    return sub(r" at 0x[0-9a-fA-F]+", "", " ".join(text.split()))


def _code(regressor: Any) -> list[Any]:
    """Return the class, those of the parameters, and functions among these, by which others of its name differ."""
    values = regressor.get_params().values()
    return [type(regressor), *(value if isinstance(value, FunctionType) else type(value) for value in values)]


@register
class Learner(Basis):
    """phi(x) = (1, x_1, ..., x_D, f_1(x), ..., f_E(x)): a plane beside what a regressor predicts of each target.

    The regressor is fitted to most of the rows, one copy for each target, and stays. What its prediction is worth is
    learnt from rows that it has not seen: stacking (Breiman 1996) with the plane, as `streamgp.bases.Boosted` does.

    The basis holds the rows of the fit, not the regressor, which is code: another process fits it once more, to the
    same rows. What is predicted that is no number counts as the mean.

    In a compiled program (a GPU, or float32; the engine for CPUs compiles no features) it is a callback of JAX's,
    which needs two cores: with one, JAX waits for itself where the inputs are still being computed. On few cores it
    may do so for ever even then (jax-ml/jax issue 25861); ``jax.config.update("jax_cpu_enable_async_dispatch",
    False)`` before the first computation keeps it from that. It is the user's to call, as all of JAX's settings are.

    Parameters
    ----------
    X, y
        The rows of the fit, and zeros up to `MAX_ROWS`.
    rows
        How many they are.
    seed
        For a regressor whose `random_state` is None.
    digest
        Of all these: by it the fitted regressor is found.
    name
        What `remember` has called it.
    """

    # The second fit is to the latter half of the rows.
    starts: ClassVar[tuple[float, ...]] = (1.0, 2.0)

    X: Float[AnyArray, "*stack m d"]
    y: Float[AnyArray, "*stack m e"]
    rows: Int[AnyArray, "*stack"]
    seed: Int[AnyArray, "*stack"]
    digest: Int[AnyArray, "*stack 16"]
    name: str = static_field()

    @property
    def num_features(self) -> int:
        """Return D + 1 + E: a plane, and a prediction of each target."""
        return self.X.shape[-1] + 1 + self.y.shape[-1]

    @property
    def num_inputs(self) -> int:
        """Return D, as the regressor was fitted to."""
        return self.X.shape[-1]

    @property
    def largest_product(self) -> float:
        """Return infinity: what the regressor computes is not known."""
        return np.inf

    def __call__(self, X: Float[AnyArray, "n d"]) -> Float[AnyArray, "*stack n f"]:
        """Place a constant and the inputs before the regressor's predictions."""
        own = (self.X, self.y, self.rows, self.seed, self.digest)
        predicted = _from_host if is_jax(X, *own) else _predicted
        return beside_plane(X, predicted(self.name, X, *own))

    def honest_rows(self, n: int) -> Int[np.ndarray, " m"]:
        """Return the rows that are held out, as those of `Boosted` are."""
        return held_out(n)

    def anew(self, X: Any, y: Any, key: Key) -> "Learner":
        """Return the same regressor fitted to other rows."""
        return self.fitted(self.name, X, y, start=1.0, key=key)

    @classmethod
    def fitted(cls, name: str, X: Any, y: Any, *, start: float, key: Key) -> "Learner":
        """Fit the regressor of a name to all rows that are not held out; of these, to the last one in `start`.

        Raises
        ------
        LearnerError
            If the regressor fails; the message is its own.
        """
        X, y = np.asarray(X, float), np.asarray(y, float)
        kept = np.setdiff1d(np.arange(len(X)), held_out(len(X)))
        kept = kept[len(kept) - max(1, round(len(kept) / start)) :]
        kept = kept[np.linspace(0, len(kept) - 1, min(len(kept), MAX_ROWS)).round().astype(int)]
        X, y = (np.pad(a[kept], ((0, MAX_ROWS - len(kept)), (0, 0))) for a in (X, y))
        seed = int(keys.generator(key).integers(2**31, dtype=np.int32))
        digest = blake2b(X.tobytes() + y.tobytes() + f"{name} {len(kept)} {seed}".encode(), digest_size=16).digest()
        # If the fit fails, it fails here.
        _fit(name, X, y, len(kept), seed, digest)
        number = np.frombuffer(digest, np.uint8).astype(np.int32)
        return cls(X, y, np.asarray(len(kept)), np.asarray(seed), number, name)


def _from_host(name: str, *arrays: AnyArray) -> Float[AnyArray, "*stack n e"]:
    """Return `_predicted` inside a compiled program.

    Numbers travel as their bits: the thread that JAX calls back in need not have x64 on, and would halve them.
    """
    jax = sys.modules["jax"]
    jnp = jax.numpy
    x, X, y, *own = (jnp.asarray(a) for a in arrays)
    bits = [jax.lax.bitcast_convert_type(a, jnp.uint32) for a in (x, X.astype(x.dtype), y.astype(x.dtype))]
    shape = (*X.shape[:-2], len(x), y.shape[-1], *bits[0].shape[2:])
    found = jax.pure_callback(
        _on_host(name, np.dtype(x.dtype).name),
        jax.ShapeDtypeStruct(shape, jnp.uint32),
        *bits,
        *(a.astype(jnp.int32) for a in own),
        vmap_method="sequential",
    )
    return jax.lax.bitcast_convert_type(found, x.dtype)


# There is one function for each name, so that nothing is compiled twice.
@cache
def _on_host(name: str, dtype: str) -> Any:
    def predicted(*arrays: Any) -> np.ndarray:
        bits, own = [np.ascontiguousarray(a) for a in arrays[:3]], arrays[3:]
        numbers = [a.view(dtype)[..., 0] if dtype == "float64" else a.view(dtype) for a in bits]
        found = _predicted(name, *numbers, *own).view(np.uint32)
        return found.reshape(*found.shape[:-1], -1, 2) if dtype == "float64" else found

    return predicted


def _predicted(
    name: str, x: Any, X: Any, y: Any, rows: Any, seed: Any, digest: Any
) -> Float[np.ndarray, "*stack n e"]:
    """Return what the fitted regressors of a stack predict of rows x."""
    x, X, y, rows, seed, digest = (np.asarray(a) for a in (x, X, y, rows, seed, digest))
    found = np.empty((*rows.shape, len(x), y.shape[-1]), x.dtype)
    for at in np.ndindex(rows.shape):
        fitted = _fit(name, X[at], y[at], int(rows[at]), int(seed[at]), digest[at].astype(np.uint8).tobytes())
        for e, regressor in enumerate(fitted):
            found[(*at, slice(None), e)] = _predict(name, regressor, x)
    return found


def _fit(name: str, X: np.ndarray, y: np.ndarray, n: int, seed: int, digest: bytes) -> list[Any]:
    """Return a regressor for each target, fitted to the first n rows; it is kept for the next time."""
    key = (name, digest)
    with _lock:
        if key in _fitted:
            _fitted.move_to_end(key)
            return _fitted[key]
        template = _given.get(name)
    if template is None:
        own = name.removeprefix(PREFIX)
        raise LearnerError(f"learners: expected {own}, which this process was not given; load the model with it")
    from sklearn.base import clone

    fitted: list[Any] = []
    for target in y[:n].T:
        regressor: Any = clone(template)
        free = [each for each, value in regressor.get_params().items() if value is None and _is_seed(each)]
        regressor.set_params(**dict.fromkeys(free, seed))
        try:
            with one_openmp_thread():
                # Some regressors write into their arguments.
                regressor.fit(X[:n].copy(), target.copy())
        except Exception as error:
            raise LearnerError(
                f"learners: {name.removeprefix(PREFIX)} failed to fit {n:,} rows ({type(error).__name__}: {error})"
            ) from error
        _predict(name, regressor, X[:1])
        fitted.append(regressor)
    with _lock:
        _fitted[key] = fitted
        while len(_fitted) > _KEPT:
            _fitted.popitem(last=False)
    return fitted


def _is_seed(parameter: str) -> bool:
    return parameter.split("__")[-1] == "random_state"


def _predict(name: str, regressor: Any, x: np.ndarray) -> Float[np.ndarray, " n"]:
    """Return what a regressor predicts, a number for each row."""
    try:
        values = np.asarray(regressor.predict(x.copy()), float)
    except Exception as error:
        raise LearnerError(
            f"learners: {name.removeprefix(PREFIX)} failed to predict {len(x):,} rows "
            f"({type(error).__name__}: {error})"
        ) from error
    if values.size != len(x):
        raise LearnerError(
            f"learners: expected {name.removeprefix(PREFIX)} to predict a number for each of {len(x):,} rows, "
            f"got an array of shape {values.shape}"
        )
    return np.nan_to_num(values.reshape(len(x)), posinf=0.0, neginf=0.0)
