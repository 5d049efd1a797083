"""The challengers of a stream: entries of its log begin, promote and end them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from streamgp.evaluation.running_difference import RunningDifference
from streamgp.numerics.checkpoint.directory import sync_directory
from streamgp.service.challenger import Came, Challenger, Labelled, Scored, log_densities
from streamgp.service.config import StreamConfig
from streamgp.service.payload import Rows
from streamgp.service.predictions import Columns
from streamgp.service.problems import Problem
from streamgp.service.requests import Request
from streamgp.service.succession import succeed

# That a stream may have.
MOST = 3
# The most rows that one may be behind.
MOST_BEHIND = 200_000
# Where checkpoints have their models.
FOLDER = "challengers"


class Challengers:
    """All that there are, by name.

    Parameters
    ----------
    sent
        The stream, whose rows they get.

    Attributes
    ----------
    promotion
        The answer to the last one: which was ``promoted``, and at which ``position``; None if there was none.
    """

    def __init__(self, sent: StreamConfig) -> None:
        self.sent = sent
        self.promotion: dict[str, Any] | None = None
        self._all: dict[str, Challenger] = {}

    def all(self) -> list[Challenger]:
        """Return them, by name."""
        return [each for _, each in sorted(self._all.copy().items())]

    def get(self, name: str) -> Challenger:
        """Return one.

        Raises
        ------
        Problem
            If there is none of this name.
        """
        found = self._all.get(name)
        if found is None:
            raise Problem(404, f"challenger: expected one of {', '.join(self._all) or 'none'}, got {name[:80]!r}")
        return found

    def check_new(self, name: str, config: StreamConfig) -> bool:
        """Return whether there is the same one already.

        Raises
        ------
        Problem
            If it is another one, or there are too many.
        """
        known = self._all.get(name)
        if known is not None and known.config != config:
            raise Problem(409, f"name: {name!r} is that of another challenger; choose another, or delete it")
        if known is None and len(self._all) >= MOST:
            raise Problem(409, f"challengers: expected at most {MOST} of a stream; delete one")
        return known is not None

    def check_promotion(self, name: str, force: bool) -> Challenger:
        """Return one that may be promoted.

        Raises
        ------
        Problem
            If there is none of this name, it has failed, or is in its warm-up and `force` is not given.
        """
        found = self.get(name)
        if found.failure is not None:
            raise Problem(409, f"{name} has failed, and cannot be promoted: {found.failure}")
        if not (force or found.is_warmed_up):
            raise Problem(
                409, f"{name} is in its warm-up: expected one whose model is fitted; wait, or promote with force"
            )
        return found

    # Entries of the log

    def apply(self, request: Request, champion: Any) -> tuple[Any, Any]:
        """Do what an entry asks for; return the answer, and the model that answers from now on."""
        asked = request.challenger or {}
        try:
            if asked["do"] == "promote":
                return self._promote(asked["name"], asked["force"], request.position, champion)
            if asked["do"] == "begin":
                return self._begin(asked["name"], asked["options"], request.position, champion), champion
            found = self.get(asked["name"])
            if asked["do"] == "fail":
                found.fail(asked["why"])
            else:
                del self._all[found.name]
        except Problem as problem:
            return problem, champion
        return {"name": found.name, "position": request.position}, champion

    def _begin(self, name: str, options: dict[str, Any], position: int, champion: Any) -> dict[str, Any]:
        config = self.sent.with_model(options)
        if not self.check_new(name, config):
            try:
                self._all[name] = Challenger.begin(name, config, position, champion)
            except Exception as error:
                raise Problem(422, f"{name}: could not be begun ({error})") from error
        return self._all[name].begun

    def has_promoted(self, name: str) -> bool:
        """Return whether the last one that was promoted has this name, and none that is there."""
        return self.promotion is not None and self.promotion["promoted"] == name and name not in self._all

    def _promote(self, name: str, force: bool, position: int, champion: Any) -> tuple[Any, Any]:
        if self.has_promoted(name):
            return self.promotion, champion
        if name in self._all:
            self._all[name].catch_up()
        found = self.check_promotion(name, force)
        try:
            found.model.view()
            succeed(found.model, champion)
        except Exception as error:
            found.fail(f"it cannot answer ({type(error).__name__}: {error!s:.200})")
            raise Problem(409, f"{name} has failed, and cannot be promoted: {found.failure}") from error
        del self._all[name]
        self.promotion = {"promoted": name, "position": position}
        for other in self._all.values():
            # From now on they are compared with this one.
            other.catch_up()
            other.difference, other.first = RunningDifference(), found.model.next_row
        return self.promotion, found.model

    # Rows

    def take(self, rows: Rows, at: float | None = None) -> None:
        """Let them learn rows that came, or, at a time, predict them."""
        for each in self._all.values():
            each.take(Came(rows, at))

    def take_labels(self, ids: Sequence[str], y: Any) -> None:
        """Let them learn labels."""
        for each in self._all.values():
            each.take(Labelled(list(ids), y))

    def take_scores(self, columns: Columns, waited: int) -> None:
        """Let them be compared with what the stream's own model has scored."""
        for each in self._all.values():
            each.take(Scored(np.asarray(columns["row"]), log_densities(columns), waited))

    @property
    def behind(self) -> int:
        """Count the rows that the slowest has still to learn."""
        return max((each.behind for each in self.all()), default=0)

    @property
    def has_work(self) -> bool:
        """Whether one has anything to do."""
        return any(each.has_work for each in self.all())

    def work(self) -> None:
        """Do the next piece of the one that is furthest behind."""
        waiting = [each for each in self.all() if each.has_work]
        if waiting:
            max(waiting, key=lambda each: each.behind).work()

    def catch_up(self, most: int = 0) -> None:
        """Have all learn until no more than so many rows wait for any."""
        for each in self.all():
            each.catch_up(most)

    # Keeping

    def save(self, directory: Path) -> None:
        """Write the models into the directory of a checkpoint, after `to_tree`."""
        if not self._all:
            return
        for each in self._all.values():
            each.save(directory / FOLDER)
        if (directory / FOLDER).exists():
            sync_directory(directory / FOLDER)
            sync_directory(directory)

    def to_tree(self) -> dict[str, Any]:
        """Return what a checkpoint needs beside the models."""
        return {
            "promotion": self.promotion,
            "all": [each.to_tree() for each in self._all.values()],
        }

    @classmethod
    def load(cls, directory: Path, sent: StreamConfig, tree: dict[str, Any]) -> Self:
        """Return what `save` and `to_tree` have kept."""
        found = cls(sent)
        found.promotion = tree["promotion"]
        found._all = {each["name"]: Challenger.load(directory / FOLDER, sent, each) for each in tree["all"]}
        return found
