"""The usual time between the rows of each key of a fleet, and the times that are in doubt."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from streamgp.fleet.frames import Key
from streamgp.fleet.key_index import NEW
from streamgp.table.clock import Pace, judge, say_jump


class Doubts(NamedTuple):
    """Rows whose time is in doubt: which, the first one and what is wrong with it; and what is known after them."""

    rows: Bool[np.ndarray, " n"]
    first: int | None
    fault: str
    pace: Pace
    doubted: dict[Key, float]


class Clocks:
    """The pace of all keys, and of each key the time of its last row if that was in doubt."""

    def __init__(self) -> None:
        self._pace, self._doubted = Pace(), dict[Key, float]()

    def judge(
        self,
        keys: Sequence[Key | None],
        number: Int[np.ndarray, " n"],
        times: Float[np.ndarray, " n"] | None,
        seen: Float[np.ndarray, " k"],
        dated: bool,
        together: bool,
    ) -> Doubts:
        """Find rows that jump ahead of those before of their key; those that go back are for others to find.

        Parameters
        ----------
        keys, number
            Of rows in their order, and the numbers of the keys, `NEW` of none.
        times
            Of the rows.
        seen
            The last time of each key that is known.
        dated, together
            As in `streamgp.table.clock.judge`.
        """
        found = np.zeros(len(number), bool)
        good = np.flatnonzero((number != NEW) & np.isfinite(times)) if times is not None else np.empty(0, int)
        if times is None or not len(good):
            return Doubts(found, None, "", self._pace, self._doubted)
        last = np.full(int(number.max()) + 1, -np.inf)
        last[: len(seen)] = seen[: len(last)]

        def named() -> dict[int, Key]:
            return {int(number[i]): key for i in good.tolist() if (key := keys[i]) is not None}

        of = named() if self._doubted else {}
        mine = {n: self._doubted[key] for n, key in of.items() if key in self._doubted}
        pace = replace(self._pace, doubted=mine)
        verdict = judge(times[good], last, pace, dated=dated, keys=number[good], together=together)
        ahead = verdict.doubtful.copy()
        ahead[verdict.doubtful] = [jump.time > jump.before for jump in verdict.jumps]
        found[good[ahead]] = True
        jump = next((each for each in verdict.jumps if each.time > each.before), None)
        names = of or (named() if verdict.pace.doubted else {})
        others = {key: time for key, time in self._doubted.items() if key not in set(of.values())}
        doubted = others | {names[n]: time for n, time in verdict.pace.doubted.items()}
        first = None if jump is None else int(good[jump.row])
        fault = "" if jump is None else say_jump(jump, dated)
        return Doubts(found, first, fault, replace(verdict.pace, doubted={}), doubted)

    def learn(self, doubts: Doubts) -> None:
        """Take what is known after rows that were learnt."""
        self._pace, self._doubted = doubts.pace, doubts.doubted

    def remember(self, doubts: Doubts) -> None:
        """Keep the times in doubt of rows that were refused, for which the next rows of their keys may speak."""
        self._doubted = doubts.doubted

    def to_tree(self) -> dict[str, Any]:
        """Return plain values, for a checkpoint."""
        return self._pace.to_tree() | {"keys": [[key, time] for key, time in self._doubted.items()]}

    def restore(self, tree: dict[str, Any]) -> None:
        """Take what `to_tree` returned."""
        self._pace = Pace.from_tree(tree)
        self._doubted = {key: float(time) for key, time in tree["keys"]}
