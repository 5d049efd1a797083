"""The features of a row: a constant, lags, season, calendar, inputs, products of these, and Fourier features.

All but the constant and the products are inputs of the random Fourier features as well (Rahimi and Recht 2007).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from streamgp.fleet import products
from streamgp.fleet.scales import REACH, YOUNG
from streamgp.numerics.checkpoint.encoding import register
from streamgp.table.calendar import calendar_columns, calendar_width

# An input so many scales out is no measurement, and counts as missing.
ABSURD = 1e9


@register
@dataclass(frozen=True)
class FeatureMap:
    """What a row's features are.

    Attributes
    ----------
    lags
        How many learnt rows of the same key to look back, each a feature; the season's among them.
    calendar
        Entries of `streamgp.table.calendar`, of times that are dates: cycles and holidays.
    num_inputs
        FleetColumns besides key, time and target.
    short
        How many lags, the first ones, lie within a day: the errors of experts that do without them are carried on.
        0 where rows do not come within days.
    pairs
        Of the products, see `streamgp.fleet.products`.
    frequencies
        Of the Fourier features, one a row.
    """

    lags: tuple[int, ...]
    calendar: tuple[str, ...]
    num_inputs: int
    short: int
    pairs: Int[np.ndarray, "p 2"]
    frequencies: Float[np.ndarray, "m z"]

    @property
    def width(self) -> int:
        """How many past targets of each key are kept."""
        return max(YOUNG, *self.lags) if self.lags else YOUNG

    @property
    def num_linear(self) -> int:
        """How many features are linear, the constant among them."""
        return 1 + len(self.lags) + calendar_width(self.calendar) + self.num_inputs

    @property
    def num_curved(self) -> int:
        """How many features are linear, or products."""
        return self.num_linear + len(self.pairs)

    @property
    def num_features(self) -> int:
        """How many features there are."""
        return self.num_curved + 2 * len(self.frequencies)

    @property
    def curved(self) -> Int[np.ndarray, " u"]:
        """Which features are linear, or products, and no short lags."""
        return self.waved[: self.num_curved - self.short]

    @property
    def waved(self) -> Int[np.ndarray, " u"]:
        """Which features are no short lags, Fourier features among them."""
        return np.delete(np.arange(self.num_features), np.arange(1, 1 + self.short))

    def standardise(
        self,
        past: Float[np.ndarray, "n w"],
        X: Float[np.ndarray, "n d"],
        times: Float[np.ndarray, " n"],
        center: Float[np.ndarray, "n c"],
        scale: Float[np.ndarray, "n c"],
    ) -> Float[np.ndarray, "n z"]:
        """Return the inputs of the features in units of their scales; zero, the middle, where one is missing.

        `past` holds each key's last targets, the last one last; `center` and `scale` are those of the target, then
        of the inputs.
        """
        lagged = past[:, [-lag for lag in self.lags]] if self.lags else past[:, :0]
        parts = [(lagged - center[:, :1]) / scale[:, :1], calendar_columns(times, self.calendar)]
        inputs = (X - center[:, 1:]) / scale[:, 1:]
        parts.append(np.where(np.abs(inputs) > ABSURD, np.nan, inputs))
        Z = np.concatenate(parts, axis=1)
        return np.clip(np.where(np.isnan(Z), 0.0, Z), -REACH, REACH)

    def __call__(self, Z: Float[np.ndarray, "n z"]) -> Float[np.ndarray, "n f"]:
        """Return the features of standardised inputs."""
        angle = Z @ self.frequencies.T
        wave = np.concatenate([np.cos(angle), np.sin(angle)], axis=1) / np.sqrt(max(len(self.frequencies), 1))
        return np.concatenate([np.ones((len(Z), 1)), Z, products.multiplied(Z, self.pairs), wave], axis=1)

    def slopes(self, Z: Float[np.ndarray, "n z"], theta: Float[np.ndarray, "n f"]) -> Float[np.ndarray, "n z"]:
        """Return the derivative of ``phi' theta`` by each standardised input: lags, calendar, inputs."""
        first, m = self.num_curved, len(self.frequencies)
        angle, toward = Z @ self.frequencies.T, self.frequencies / np.sqrt(max(m, 1))
        waves = theta[:, first + m :] * np.cos(angle) - theta[:, first : first + m] * np.sin(angle)
        bent = products.slopes(Z, self.pairs, theta[:, self.num_linear : first])
        return theta[:, 1 : self.num_linear] + bent + waves @ toward
