"""What fleets use of Ray, in this process: actors that run when they are asked for an answer, and can be killed."""

import pickle
from types import SimpleNamespace
from typing import Any


class ActorError(Exception):
    """The actor has died."""


class FakeRay:
    """Put it in the place of the module `ray`."""

    exceptions = SimpleNamespace(RayActorError=ActorError)

    def __init__(self) -> None:
        self.started = 0  # actors

    def is_initialized(self) -> bool:
        return True

    def put(self, value: Any) -> "Reference":
        reference = Reference(None)
        reference.values = [sent(value)]
        return reference

    def get(self, reference: "Reference") -> Any:
        if reference.actor is not None:
            reference.actor.run_to(reference)
        return reference.values[reference.part]

    def kill(self, actor: "Actor") -> None:
        actor.dead = True

    def remote(self, cls: type) -> Any:
        def start(*args: Any, **named: Any) -> Actor:
            self.started += 1
            return Actor(self, cls(*args, **named))

        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=start))


class Reference:
    """To a value, or to one of those that an actor's call returns."""

    def __init__(self, actor: "Actor | None", part: int = 0) -> None:
        self.actor, self.part = actor, part
        self.values: list[Any] = []


class Actor:
    """An object, and the calls that wait for it."""

    def __init__(self, ray: FakeRay, held: Any) -> None:
        self._ray, self._held, self.dead = ray, held, False
        self._queue: list[tuple[str, Any, Reference, int]] = []

    def __getattr__(self, method: str) -> Any:
        def remote(*args: Any, num_returns: int = 1) -> Any:
            first = Reference(self)
            references = [first, *(Reference(self, part) for part in range(1, num_returns))]
            for each in references:
                each.values = first.values
            self._queue.append((method, sent(args), first, num_returns))
            return first if num_returns == 1 else references

        def options(num_returns: int) -> Any:
            return SimpleNamespace(remote=lambda *args: remote(*args, num_returns=num_returns))

        return SimpleNamespace(remote=remote, options=options)

    def run_to(self, reference: Reference) -> None:
        while not reference.values:
            if self.dead:
                raise ActorError("killed")
            method, args, first, number = self._queue.pop(0)
            args = [self._ray.get(arg) if isinstance(arg, Reference) else arg for arg in args]
            found = sent(getattr(self._held, method)(*args))
            first.values += [found] if number == 1 else list(found)


def sent(value: Any) -> Any:
    """Return a copy whose arrays cannot be written, as they come out of Ray's store; references are as they were."""
    if isinstance(value, tuple) and any(isinstance(each, Reference) for each in value):
        return tuple(each if isinstance(each, Reference) else sent(each) for each in value)
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(data, buffers=[bytes(each.raw()) for each in buffers])
