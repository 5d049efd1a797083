"""Functions that change with time to test an optimiser on, and the loop that computes its regret."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from streamgp.bandits.optimizer import TimeVaryingOptimizer
from streamgp.bandits.parameters import Real
from streamgp.bandits.space import Box, Candidates


@runtime_checkable
class Problem(Protocol):
    """A function of points and of time."""

    @property
    def space(self) -> Box | Candidates:
        """Return the set of points on which it is defined."""
        ...

    @property
    def noise_std(self) -> float:
        """Return the standard deviation of the noise of an evaluation."""
        ...

    def value(self, U: Float[np.ndarray, "n d"], t: int) -> Float[np.ndarray, " n"]:
        """Return values without noise at unit coordinates, in step t from 1; NaN where there is no reading."""
        ...

    def best(self, t: int) -> float:
        """Return the greatest value in step t."""
        ...


class Played(NamedTuple):
    """The regret and the time of a run.

    Attributes
    ----------
    regret
        Of each step, by how much the best point would have been better; NaN where the reading was missing.
    side_regret
        The same of every answer to a side query.
    seconds
        That the optimiser took in each step; None where there was none.
    """

    regret: Float[np.ndarray, " t"]
    side_regret: Float[np.ndarray, " q"]
    seconds: Float[np.ndarray, " t"] | None = None


def play(
    problem: Problem,
    optimizer: TimeVaryingOptimizer,
    steps: int,
    seed: int,
    *,
    answers: bool = True,
    side_noise_std: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> Played:
    """Let an optimiser choose for so many steps, and count its dynamic regret (Mauduit et al., Eq. 2).

    In step t the point chosen from what was known after step t - 1 is evaluated; then side queries about the function
    of step t are answered.

    Parameters
    ----------
    answers
        Whether side queries are asked at all.
    side_noise_std
        Of the answers; None: that of the problem.
    progress
        Called with the number of steps done.
    """
    rng = np.random.default_rng([seed, 1])
    noise = problem.noise_std if side_noise_std is None else side_noise_std
    space, regret, side = optimizer.space, np.empty(steps), []
    seconds = np.zeros(steps)
    for t in range(1, steps + 1):
        start = perf_counter()
        x = optimizer.ask()
        seconds[t - 1] += perf_counter() - start
        value = float(problem.value(space.encode(x)[None], t)[0])
        regret[t - 1] = problem.best(t) - value
        start = perf_counter()
        optimizer.tell(x, value + problem.noise_std * rng.normal())
        X = optimizer.queries() if answers else []
        seconds[t - 1] += perf_counter() - start
        if len(X):
            values = problem.value(space.encode_all(X), t)
            side.append(problem.best(t) - values)
            start = perf_counter()
            optimizer.answer(X, values + noise * rng.normal(size=len(values)))
            seconds[t - 1] += perf_counter() - start
        if progress is not None:
            progress(t)
    return Played(regret, np.concatenate(side) if side else np.zeros(0), seconds)


@dataclass(frozen=True)
class MovingBump:
    """f(x, t) = exp(-0.05 (x - 5 sin(omega t))^2) + 0.5 cos(0.2 x) + 1.5 on a grid of [-width, width].

    The synthetic problem of Mauduit, Berthier and Simonetto (Section 4.1), who have omega = 0.1, a width of 50 and a
    noise variance of 0.01. From `appears` on there is another bump, twice as high, at x = `where`.
    """

    omega: float = 0.1
    width: float = 50.0
    points: int = 1001
    noise_std: float = 0.1
    appears: int | None = None
    where: float = 35.0

    @property
    def space(self) -> Candidates:
        """Return the grid."""
        return self._space

    @cached_property
    def _space(self) -> Candidates:
        return Candidates(np.linspace(-self.width, self.width, self.points)[:, None])

    def value(self, U: Float[np.ndarray, "n d"], t: int) -> Float[np.ndarray, " n"]:
        """Return the function of step t."""
        x = self.width * (2.0 * U[:, 0] - 1.0)
        f = np.exp(-0.05 * np.square(x - 5.0 * np.sin(self.omega * t))) + 0.5 * np.cos(0.2 * x) + 1.5
        if self.appears is not None and t >= self.appears:
            f += 2.0 * np.exp(-0.05 * np.square(x - self.where))
        return f

    def best(self, t: int) -> float:
        """Return the greatest value on the grid."""
        return float(self.value(self.space.unit, t).max())


@dataclass(frozen=True, eq=False)
class Stations:
    """Stations of which one is to be read each day: the reward is its reading.

    Parameters
    ----------
    places
        Of each station, its coordinates (n, 2).
    readings
        (days, n); NaN where there is none.
    """

    places: Float[np.ndarray, "n 2"]
    readings: Float[np.ndarray, "t n"]
    noise_std: float = 0.0

    @property
    def space(self) -> Candidates:
        """Return the stations."""
        return self._space

    @cached_property
    def _space(self) -> Candidates:
        return Candidates(self.places)

    def value(self, U: Float[np.ndarray, "n d"], t: int) -> Float[np.ndarray, " n"]:
        """Return the readings of day t."""
        nearest = np.argmin(np.square(U[:, None] - self.space.unit[None]).sum(axis=2), axis=1)
        return self.readings[t - 1, nearest]

    def best(self, t: int) -> float:
        """Return the greatest reading of day t."""
        return float(np.nanmax(self.readings[t - 1]))


_GAINS = ((0.1, 100.0), (0.1, 300.0))


@dataclass(frozen=True)
class Motor:
    """The gains of a PI controller for the speed of a motor whose load changes from one run to the next.

    A direct-current motor with inertia, friction and an armature of some inductance is to reach speed 1 and stay
    there, against a load torque that sets in half-way, by readings that are `delay` samples old. What a run costs is
    the mean absolute error of the speed, and something for the current; the reward is minus the log of that. The
    inertia swings between a quarter and four times its usual value, once in `period` runs: gains that suit a light
    load are sluggish with a heavy one, and those that suit a heavy one make a light one swing.
    """

    period: float = 200.0
    noise_std: float = 0.05
    samples: int = 300
    delay: int = 6

    @property
    def space(self) -> Box:
        """Return the box of proportional and integral gain, both on log scales."""
        return Box(tuple(Real(low, high, log=True) for low, high in _GAINS), ("proportional", "integral"))

    def inertia(self, t: int) -> float:
        """Return the inertia of run t."""
        return 0.05 * 4.0 ** float(np.sin(2.0 * np.pi * t / self.period))

    def speed(self, U: Float[np.ndarray, "n d"], t: int) -> tuple[Float[np.ndarray, "s n"], Float[np.ndarray, "s n"]]:
        """Simulate speed and current over one second of run t, for each pair of gains (semi-implicit Euler steps)."""
        kp, ki = (low * (high / low) ** u for (low, high), u in zip(_GAINS, U.T, strict=True))
        dt, inertia = 1.0 / self.samples, self.inertia(t)
        omega, current, integral = (np.zeros(len(U)) for _ in range(3))
        speeds, currents = np.empty((self.samples, len(U))), np.empty((self.samples, len(U)))
        for s in range(self.samples):
            error = 1.0 - (speeds[s - self.delay] if s >= self.delay else 0.0)
            wanted = kp * error + ki * integral
            volts = np.clip(wanted, -24.0, 24.0)
            # The integral does not grow while the drive is at its limit.
            integral += dt * error * (volts == wanted)
            # Armature: 0.02 di/dt = V - i - 0.5 omega; shaft: J domega/dt = 0.5 i - 0.05 omega - load.
            current = (current + dt / 0.02 * (volts - 0.5 * omega)) / (1.0 + dt / 0.02)
            load = 0.5 * (s >= self.samples // 2)
            omega = (omega + dt / inertia * (0.5 * current - load)) / (1.0 + 0.05 * dt / inertia)
            speeds[s], currents[s] = omega, current
        return speeds, currents

    def value(self, U: Float[np.ndarray, "n d"], t: int) -> Float[np.ndarray, " n"]:
        """Return minus the log of what run t costs with these gains."""
        speeds, currents = self.speed(U, t)
        return -np.log(np.abs(1.0 - speeds).mean(axis=0) + 2e-4 * np.square(currents).mean(axis=0))

    def best(self, t: int) -> float:
        """Return the greatest reward on a fine grid of gains."""
        phase = round(t % self.period, 9)
        if phase not in self._known:
            grid = np.stack(np.meshgrid(np.linspace(0, 1, 61), np.linspace(0, 1, 61)), -1).reshape(-1, 2)
            self._known[phase] = float(self.value(grid, t).max())
        return self._known[phase]

    @cached_property
    def _known(self) -> dict[float, float]:
        return {}
