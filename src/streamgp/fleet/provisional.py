"""Provisional predictions before the warm-up ends: the next target of a key is near its last one.

How far apart consecutive targets lie is learnt by key, from the squares of its steps, none of which counts for much
more than its usual ones; what is usual for a key is drawn to what is usual for the others while it has few rows, the
less the more the keys differ. All that is taken of the fleet are medians over keys: neither a glitch nor a key that
is like no other decides what the others get.
"""

import math
from dataclasses import dataclass, field
from typing import Self

from streamgp.fleet.scales import BELIEVED, CLIP, MEDIAN_VAR, NORMAL, REACH, YOUNG

# What the keys have in common is computed from so many of them.
FIRST_KEYS = 512
# It is computed again when the rows have grown by one part in so many.
REFRESH = 20
# The smallest spread of the logarithms of the keys' scales.
LEAST_SPREAD = 0.1
# With few keys, the median deviation says too little of their spread.
SMALL = 4.0


@dataclass
class KeySoFar:
    """A key in the warm-up.

    Attributes
    ----------
    rows
        Targets learnt.
    last
        What the next target is taken to be like: the last one, unless it was far out.
    aside
        The last target if it was far out: when the next one is more like it, it was a change.
    targets, squares
        The last `YOUNG` targets, and squared steps from one to the next.
    older
        The sum of the squares before, each as it counted then.
    """

    rows: int = 0
    last: float = 0.0
    aside: float | None = None
    targets: list[float] = field(default_factory=list)
    squares: list[float] = field(default_factory=list)
    older: float = 0.0

    @property
    def log_scale(self) -> tuple[float, int]:
        """Half the logarithm of the usual square, and of how many; squares of zero say nothing."""
        moved = sorted(square for square in self.squares if square > 0.0)
        return (0.5 * math.log(NORMAL**2 * _middle(moved)), len(moved)) if moved else (0.0, 0)


@dataclass(frozen=True)
class Common:
    """What the keys have in common.

    Attributes
    ----------
    center, around
        Of the first target of a new key: its mean and variance.
    log_scale, spread, most
        Of half the logarithms of the keys' usual squares: the middle, their variance, and the largest but for a
        tenth of the keys; none where no key has moved yet.
    moving
        The share of the steps that are not zero.
    """

    center: float = 0.0
    around: float = 1.0
    log_scale: float | None = None
    spread: float = 1.0
    most: float = 0.0
    moving: float = 1.0

    @classmethod
    def of(cls, keys: list[KeySoFar]) -> Self:
        """Find it from keys of which each has a row."""
        sorted_targets = [sorted(key.targets) for key in keys]
        places = [_middle(each) for each in sorted_targets]
        within = [
            (NORMAL * _middle(sorted(abs(y - place) for y in each))) ** 2
            for each, place in zip(sorted_targets, places, strict=True)
            if len(each) > 1
        ]
        center = _middle(sorted(places))
        apart = (1.0 + SMALL / len(keys)) * NORMAL * _middle(sorted(abs(place - center) for place in places))
        around = apart * apart + (_middle(sorted(within)) if within else 0.0)
        scales = [each for each in (key.log_scale for key in keys) if each[1]]
        if not scales:
            return cls(center, around or 1.0)
        moving = sum(n for _, n in scales) / sum(len(key.squares) for key in keys)
        # One row is added, so that the first key to move does not decide.
        if around > 0.0:
            scales.append((0.5 * math.log(around), len(keys)))
        logs = sorted(log for log, _ in scales)
        middle, spread = _middle(logs), 1.0
        if len(logs) > 1:
            noise = sum(MEDIAN_VAR / n for _, n in scales) / len(scales)
            between = (NORMAL * _middle(sorted(abs(log - middle) for log in logs))) ** 2
            spread = max(between - noise, LEAST_SPREAD**2)
        most = logs[-1 - len(logs) // 10 - (len(logs) > 1)]
        return cls(center, around or 1.0, middle, spread, most, moving)


@dataclass
class Provisional:
    """The keys so far, and what they have in common.

    Not stored: the rows of the warm-up are, and tell it again.

    Attributes
    ----------
    keys
        By their numbers.
    learnt
        Targets of all of them.
    """

    keys: list[KeySoFar] = field(default_factory=list)
    learnt: int = 0
    common: Common = field(default_factory=Common)
    refresh_at: int = 1

    def rows(self, key: int) -> int:
        """Return how many targets of a key have been learnt."""
        return self.keys[key].rows if 0 <= key < len(self.keys) else 0

    def predict(self, key: int) -> tuple[float, float]:
        """Return mean and variance of the key's next target."""
        if not self.rows(key):
            return self.common.center, self.common.around
        return self.keys[key].last, self._variance(self.keys[key])[0]

    def learn(self, key: int, y: float) -> None:
        """Learn the key's next target."""
        while key >= len(self.keys):
            self.keys.append(KeySoFar())
        k = self.keys[key]
        if k.rows:
            self._step(k, y)
        else:
            k.last = y
        k.rows += 1
        k.targets = [*k.targets[1 - YOUNG :], y]
        self.learnt += 1
        if self.learnt >= self.refresh_at:
            self.common = Common.of([each for each in self.keys[:FIRST_KEYS] if each.rows])
            self.refresh_at = self.learnt + 1 + self.learnt // REFRESH

    def _step(self, k: KeySoFar, y: float) -> None:
        """Learn how far the next target lies from the last one, and whether to go on from it."""
        variance, most = self._variance(k)
        off, start = abs(y - k.last), k.last
        if off * off <= REACH * REACH * variance or self.common.log_scale is None:
            k.last, k.aside = y, None
        elif k.aside is not None and abs(y - k.aside) < off:
            start, k.last, k.aside = k.aside, y, None
        elif k.rows == 1 and abs(y - self.common.center) < abs(k.last - self.common.center):
            # Of two targets far apart, the one that is more like the other keys' targets is used.
            k.last = y
        else:
            k.aside = y
        k.squares.append((y - start) ** 2)
        if len(k.squares) > YOUNG:
            k.older += min(k.squares.pop(0), most)

    def _variance(self, k: KeySoFar) -> tuple[float, float]:
        """Return the variance of the key's next step, and the largest square that counts."""
        common = self.common
        if common.log_scale is None:
            return (sum(k.squares) + common.around) / k.rows or 1.0, math.inf
        own, n = k.log_scale
        # Normal beliefs in the logarithm of the scale: of the fleet's keys, and of what this one has shown.
        rows, pull = MEDIAN_VAR / common.spread, common.log_scale - own
        # A key unlike all others is shrunk no more than one that might be like them.
        if n >= BELIEVED:
            reach = CLIP * math.sqrt(common.spread + MEDIAN_VAR / n)
            pull = min(max(pull, -reach), reach)
        log_scale = own + rows * pull / (rows + n)
        unknown = MEDIAN_VAR / (rows + n)
        usual = math.exp(2.0 * min(log_scale + unknown, max(common.most, log_scale)))
        usual *= (n + common.moving) / (len(k.squares) + 1.0)
        most = CLIP * CLIP * math.exp(2.0 * log_scale)
        squares = k.older + sum(min(square, most) for square in k.squares)
        return (squares + usual) / k.rows or 1.0, most


def _middle(ordered: list[float]) -> float:
    """Return the median of values in ascending order."""
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else 0.5 * (ordered[half - 1] + ordered[half])
