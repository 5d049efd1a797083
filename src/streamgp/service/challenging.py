"""What a client asks of the challengers of a stream at work."""

from concurrent.futures import Future
from time import monotonic, sleep
from typing import Any, Protocol

from streamgp.service.challenger import PIECE
from streamgp.service.config import NAME
from streamgp.service.kinds import kind_of
from streamgp.service.knowledge import Knowledge
from streamgp.service.problems import Problem
from streamgp.service.requests import CHALLENGER, Request, promise
from streamgp.service.status import StreamAtWork, check_ready

# The seconds for which a promotion waits for a challenger that is behind, before the stream itself waits for it.
PATIENCE = 30.0
_PAUSE = 0.01


class ChallengedStream(StreamAtWork, Protocol):
    """A stream at work that takes requests."""

    def hand_in(self, request: Request) -> "Future[Any]":
        """Have a request written and done."""
        ...

    def settled(self) -> Knowledge:
        """Return what is known, with rows that came singly scored."""
        ...


def begin(stream: ChallengedStream, given: dict[str, Any]) -> "Future[Any]":
    """Begin a challenger with the options that are given, others being those of the model at work; the same once.

    Raises
    ------
    Problem
        If there can be no such one, or there are too many.
    """
    name = given.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        expected = "1 to 64 letters, digits, - and _, a letter or digit first"
        raise Problem(422, f"name: expected {expected}, got {name!r:.80}")
    options = {key: value for key, value in given.items() if key != "name"}
    config = stream.model.config.changed(options)
    check_ready(stream, learning=True)
    if stream.knowledge.challengers.check_new(name, config):
        return _known(stream.knowledge.challengers.get(name).begun)
    try:
        kind_of(config)(config, stream.config)
    except ValueError as error:
        # Of the values of options the models are the judges.
        raise Problem(422, str(error)) from error
    return _ask(stream, "begin", name, options=config.changeable)


def promote(stream: ChallengedStream, name: str, force: bool) -> "Future[Any]":
    """Let a challenger answer from now on; once, if that is asked for again.

    Raises
    ------
    Problem
        If there is none of this name, or it may not.
    """
    check_ready(stream, learning=True)
    challengers = stream.knowledge.challengers
    if challengers.has_promoted(name):
        return _known(challengers.promotion)
    challenger, end = challengers.get(name), monotonic() + PATIENCE
    while challenger.behind > (PIECE if force or challenger.is_warmed_up else 0) and monotonic() < end:
        sleep(_PAUSE)
    challengers.check_promotion(name, force)
    return _ask(stream, "promote", name, force=force)


def end(stream: ChallengedStream, name: str) -> "Future[Any]":
    """End a challenger and delete what it has learnt.

    Raises
    ------
    Problem
        If there is none of this name.
    """
    check_ready(stream, learning=True)
    stream.knowledge.challengers.get(name)
    return _ask(stream, "end", name)


def listed(stream: ChallengedStream) -> dict[str, Any]:
    """Return the challengers and how they stand, and the last promotion."""
    challengers = stream.settled().challengers
    return {
        "challengers": [each.describe() for each in challengers.all()],
        "promotion": challengers.promotion,
        "position": stream.knowledge.position,
    }


def _known(answer: Any) -> "Future[Any]":
    future = promise()
    future.set_result(answer)
    return future


def _ask(stream: ChallengedStream, do: str, name: str, **more: Any) -> "Future[Any]":
    return stream.hand_in(Request(CHALLENGER, challenger={"do": do, "name": name} | more))
