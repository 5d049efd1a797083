"""The settings of a latent learner."""

from dataclasses import dataclass
from numbers import Integral

from streamgp.filters.dynamics import parse
from streamgp.latent.warmup import LENGTHSCALES
from streamgp.numerics.checkpoint.encoding import register


@register
@dataclass(frozen=True)
class LatentSpec:
    """The settings of a latent learner; see `streamgp.StreamingGPLVM` for their meaning.

    Raises
    ------
    ValueError
        If a setting is out of its range.
    """

    n_components: int = 2
    warmup: int = 500
    standardise: bool = False
    lengthscales: tuple[float, ...] = LENGTHSCALES
    n_features: int = 100
    dynamics: str = "static"
    switch: float = 0.0
    batch_size: int = 64
    n_starts: int = 5
    max_neighbours: int = 100_000
    seed: int = 0
    robust: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.seed, Integral) or not 0 <= self.seed < 2**63:
            raise ValueError(f"seed: expected a whole number from 0 to 2^63 - 1, got {self.seed!r}")
        for name in ("n_components", "warmup", "n_features", "batch_size", "n_starts", "max_neighbours"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name}: expected a whole number >= 1, got {value!r}")
        parse(self.dynamics)
        if not 0.0 <= self.switch < 1.0:
            raise ValueError(f"switch: expected a probability below 1, got {self.switch!r}")
        lowest = 2 * max(self.warmup, self.batch_size)
        if self.max_neighbours < lowest:
            raise ValueError(
                f"max_neighbours: expected at least {lowest}, twice the warm-up and twice a batch, got "
                f"{self.max_neighbours}"
            )
