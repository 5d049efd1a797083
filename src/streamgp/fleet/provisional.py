"""What is predicted before the warm-up ends: that a key's next target is like its last one."""

from dataclasses import dataclass, field

from streamgp.checkpoint.encoding import register

ORDINARY = (
    100.0  # times the mean square that a new square enters with at most, so that no glitch decides what others get
)
FIRST = 8  # squares that enter as they are


@register
@dataclass
class MeanSquare:
    """The mean of squares, in which none counts for much more than is usual."""

    count: float = 0.0
    mean: float = 0.0

    def learn(self, square: float) -> None:
        """Learn a square."""
        if self.count >= FIRST:
            square = min(square, ORDINARY * self.mean)
        self.count += 1.0
        self.mean += (square - self.mean) / self.count


@register
@dataclass
class Provisional:
    """The last target of each key, and how far consecutive targets lie apart.

    Attributes
    ----------
    rows, last, squares
        Of each key: targets learnt, the last one, and the sum of their squared differences.
    center, targets, steps
        Of all keys: mean of the targets, and mean squares around it and of the differences.
    """

    rows: list[int] = field(default_factory=list)
    last: list[float] = field(default_factory=list)
    squares: list[float] = field(default_factory=list)
    center: float = 0.0
    targets: MeanSquare = field(default_factory=MeanSquare)
    steps: MeanSquare = field(default_factory=MeanSquare)

    def predict(self, key: int) -> tuple[float, float]:
        """Return mean and variance of the key's next target."""
        rows = self.rows[key] if 0 <= key < len(self.rows) else 0
        around = self.targets.mean or 1.0
        if not rows:
            return self.center, around
        usual = self.steps.mean or around
        return self.last[key], (self.squares[key] + usual) / rows or 1.0

    def learn(self, key: int, y: float) -> None:
        """Learn the key's next target."""
        while key >= len(self.rows):
            self.rows.append(0)
            self.last.append(0.0)
            self.squares.append(0.0)
        if self.rows[key]:
            step = (y - self.last[key]) ** 2
            self.squares[key] += step
            self.steps.learn(step)
        off = y - self.center if self.targets.count else 0.0
        if self.targets.count:
            self.targets.learn(off * off)
            most = (ORDINARY * self.targets.mean) ** 0.5
            self.center += min(max(off, -most), most) / (self.targets.count + 1.0)
        else:
            self.targets.count, self.center = 1.0, y
        self.rows[key] += 1
        self.last[key] = y
