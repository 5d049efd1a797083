"""The keys of a fleet in actors of Ray: each holds the keys of some shards, as `LocalKeys` does in one process.

An actor that dies is replaced: the new one gets the last copy of the old one's state, and the calls since. What is
sent goes through Ray's own transport; nothing is written to files here.
"""

from contextlib import suppress
from functools import reduce
from typing import Any, NoReturn

import numpy as np
from jaxtyping import Float, Int

from streamgp.fleet.directory import Directory
from streamgp.fleet.local_keys import Inputs, LocalKeys, Numbers, Outcome, Values, empty_mixture, write
from streamgp.fleet.mixture import Mixture
from streamgp.fleet.model import FleetModel
from streamgp.fleet.pooling import BeliefSums
from streamgp.fleet.states import KeyStates

# The state of a worker is copied after so many rows per key. Not more are learnt again after a failure.
COPY_ROWS = 16
MIN_COPY_ROWS = 4_096
# A worker may die so often in one call.
MAX_DEATHS = 3


class WorkerError(RuntimeError):
    """Workers cannot be had, or die again and again; the message says what to do."""


def require_ray() -> Any:
    """Return the package.

    Raises
    ------
    ImportError
        If it is not installed.
    """
    try:
        import ray
    except ImportError as error:
        raise ImportError("engine='ray' needs Ray: pip install \"streamgp[ray]\".") from error
    return ray


class RayKeys:
    """Keys in workers, by their shards: shard s is that of worker s mod the number of workers.

    Parameters
    ----------
    workers
        How many.
    directory
        Which knows the shard of every key.

    Raises
    ------
    WorkerError
        If Ray neither runs nor starts.
    """

    sleepers = None

    def __init__(self, workers: int, directory: Directory) -> None:
        self._ray = require_ray()
        if not self._ray.is_initialized():
            try:
                self._ray.init(include_dashboard=False, log_to_driver=False, logging_level="WARNING")
            except (ConnectionError, RuntimeError) as error:
                raise WorkerError(
                    f"engine='ray': expected a cluster at RAY_ADDRESS, or one that starts here, got: {error}"
                ) from error
        self._directory = directory
        self._workers = [_Worker(self._ray, number) for number in range(workers)]
        # The place of every key among those of its worker.
        self._place = np.empty(0, np.int64)
        self._count = np.zeros(workers, np.int64)  # keys of every worker

    def use(self, model: FleetModel) -> None:
        """Go on with a model; see `Keys`."""
        self._change("use", dict.fromkeys(range(len(self._workers)), (self._ray.put(model),)))

    def learn(self, key: Numbers, times: Values, X: Inputs, y: Values, prior: Numbers, scored: bool) -> Outcome:
        """Predict rows, then learn them; see `Keys`."""
        found, parts, place = Outcome.empty(len(key)), self._parts(key), self._place[key]
        calls = {w: (place[at], times[at], X[at], y[at], prior[at], scored) for w, at in parts.items()}
        for w, part in self._change("learn", calls).items():
            write(found.mixture, parts[w], part.mixture)
            found.log_density[parts[w]] = part.log_density
        self._copy()
        return found

    def predict(self, key: Numbers, times: Values, X: Inputs, prior: Numbers) -> Mixture:
        """Predict rows; see `Keys`."""
        mixture, parts, place = empty_mixture(len(key)), self._parts(key), self._places(key)
        calls = {w: (place[at], times[at], X[at], prior[at]) for w, at in parts.items()}
        for w, part in self._call("predict", calls).items():
            write(mixture, parts[w], part)
        return mixture

    def forecast(self, key: Numbers, times: Float[np.ndarray, "n h"], X: Float[np.ndarray, "n h d"]) -> Mixture:
        """Forecast several rows of each key, those of the first key first."""
        mixture, parts, place = empty_mixture(times.size), self._parts(key), self._places(key)
        steps = np.arange(times.size).reshape(times.shape)
        for w, part in self._call("forecast", {w: (place[at], times[at], X[at]) for w, at in parts.items()}).items():
            write(mixture, steps[parts[w]].ravel(), part)
        return mixture

    def sums(self, group: Numbers, groups: int) -> BeliefSums:
        """Return what the priors of new keys are pooled from; see `Keys`."""
        calls = {w: (group[at], groups) for w, at in self._parts(np.arange(len(self._place))).items()}
        return reduce(BeliefSums.plus, self._call("sums", calls).values())

    def renew(self, prior: Numbers) -> None:
        """Let every key go on from the prior that is given for it."""
        parts = self._parts(np.arange(len(self._place)))
        self._change("renew", {w: (prior[at],) for w, at in parts.items()})

    def scores(self) -> dict[str, np.ndarray]:
        """Return the scores of every key."""
        found: dict[str, np.ndarray] = {}
        parts = self._parts(np.arange(len(self._directory)))
        for w, part in self._call("scores", dict.fromkeys(parts, ())).items():
            for name, values in part.items():
                found.setdefault(name, np.empty(len(self._directory), values.dtype))[parts[w]] = values
        return found

    def take(self, key: Numbers) -> KeyStates:
        """Return the states of keys of one shard."""
        ((w, at),) = self._parts(key).items()
        return self._call("take", {w: (self._place[key[at]],)})[w]

    def put(self, key: Numbers, states: KeyStates) -> None:
        """Take the states of keys of one shard that were saved."""
        ((w, at),) = self._parts(key).items()
        self._change("put", {w: (self._place[key[at]], self._ray.put(states))})

    def __deepcopy__(self, _: object) -> NoReturn:
        raise TypeError("a fleet with engine='ray' cannot be copied, as its keys are not here; save it, and load it")

    def _parts(self, key: Numbers) -> dict[int, Int[np.ndarray, " m"]]:
        """Return which of some keys are those of which worker; keys yet to be born are anyone's."""
        number = len(self._workers)
        new = self._directory.shard[len(self._place) :] % number
        if len(new):
            place = np.empty(len(new), np.int64)
            for w in range(number):
                mine = new == w
                place[mine] = self._count[w] + np.arange(mine.sum())
                self._count[w] += mine.sum()
            self._place = np.concatenate([self._place, place])
        of = np.arange(len(key)) % number
        of[key >= 0] = self._directory.shard[key[key >= 0]] % number
        parts = {w: np.flatnonzero(of == w) for w in range(number)}
        return {w: at for w, at in parts.items() if len(at)}

    def _places(self, key: Numbers) -> Numbers:
        places = np.full(len(key), -1)
        places[key >= 0] = self._place[key[key >= 0]]
        return places

    def _call(self, method: str, calls: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        """Call a method of some workers, all at once; return what each answers."""
        sent = {w: self._workers[w].send(method, args) for w, args in calls.items()}
        return {w: self._workers[w].answer(sent[w], method, args) for w, args in calls.items()}

    def _change(self, method: str, calls: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        """Call a method that changes what the workers hold, and remember the calls."""
        found = self._call(method, calls)
        for w, args in calls.items():
            self._workers[w].remember(method, args)
        return found

    def _copy(self) -> None:
        """Copy the states of the workers that have learnt enough since the last time."""
        due = [
            worker
            for worker, keys in zip(self._workers, self._count.tolist(), strict=True)
            if worker.rows >= max(COPY_ROWS * keys, MIN_COPY_ROWS)
        ]
        for worker, end in [(worker, worker.begin_copy()) for worker in due]:
            worker.end_copy(*end)


class _Worker:
    """An actor, the last copy of its state, and the calls since that have changed it.

    The copy is an object in Ray's store, which stays there when the actor has died.
    """

    def __init__(self, ray: Any, number: int) -> None:
        self._ray, self._number = ray, number
        self._copy: Any = None
        self._calls: list[tuple[str, tuple[Any, ...]]] = []
        # The number of rows learnt since the copy.
        self.rows = 0
        self._actor = self._start()

    def send(self, method: str, args: tuple[Any, ...]) -> Any:
        """Send a call; return the reference to its answer."""
        return _send(self._actor, method, args)

    def answer(self, sent: Any, method: str, args: tuple[Any, ...]) -> Any:
        """Return the answer to a call, for which an actor that has died comes back.

        Raises
        ------
        WorkerError
            If it dies again and again.
        """
        waiting, answer = [sent], None
        for death in range(1, MAX_DEATHS + 1):
            try:
                while waiting:
                    answer = self._ray.get(waiting.pop(0))
                break
            except self._ray.exceptions.RayActorError as error:
                if death == MAX_DEATHS:
                    raise WorkerError(
                        f"engine='ray': worker {self._number} died {death} times in '{method}'; see that Ray's "
                        f"machines have memory and the same streamgp, then load the fleet from where it was last "
                        f"saved. Ray said: {error}"
                    ) from error
                waiting = [*self._come_back(), self.send(method, args)]
        return answer

    def remember(self, method: str, args: tuple[Any, ...]) -> None:
        """Note a call that was answered and has changed the state."""
        self._calls.append((method, args))
        self.rows += len(args[0]) if method == "learn" else 0

    def begin_copy(self) -> tuple[Any, Any]:
        """Begin to copy the state; return references to what is there when that is done, and to the copy."""
        return self._actor.snapshot.options(num_returns=2).remote()

    def end_copy(self, done: Any, copy: Any) -> None:
        """Wait for the copy, from which the actor would come back from now on; one that has died is found later."""
        with suppress(self._ray.exceptions.RayActorError):
            self._ray.get(done)
            self._copy, self._calls, self.rows = copy, [], 0

    def _start(self) -> Any:
        # Ray gives its workers one BLAS thread each.
        return self._ray.remote(LocalKeys).options(scheduling_strategy="SPREAD").remote(threads=1)

    def _come_back(self) -> list[Any]:
        """Put a new actor in the place of the old one; return references to its answers to what it is sent."""
        self._ray.kill(self._actor)
        actor = self._start()
        calls = ([] if self._copy is None else [("restore", (self._copy,))]) + self._calls
        answers = [_send(actor, method, args) for method, args in calls]
        # The new actor is set once it has the whole state; an interrupt before this leaves the old one.
        self._actor = actor
        return answers


def _send(actor: Any, method: str, args: tuple[Any, ...]) -> Any:
    return getattr(actor, method).remote(*args)
