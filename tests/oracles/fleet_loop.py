"""One key of a fleet, row by row, as the textbooks write it: whole matrices of the weights themselves.

It takes what the fleet found for all keys (a `FleetModel`) and one key's rows, and shares no code with the fleet.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from scipy.stats import t as student

PERIODS = {"day": 86_400.0, "week": 604_800.0, "year": 365.2425 * 86_400.0}
SHARE, MEMORY, YOUNG, REACH, CLIP = 0.005, 200, 16, 10.0, 4.0
HELD, LEAVES, INPUT_LEAVES, FAR, TOGETHER = 100, 4.0, 10.0, 6.0, 4.0


@dataclass
class Expert:
    """A Kalman filter of theta, its guard, and its levels of noise."""

    prior_mean: np.ndarray
    prior_cov: np.ndarray
    decay: float
    noise: float
    discounts: np.ndarray
    start: float
    carries: bool = False

    def __post_init__(self):
        self.mean, self.cov = self.prior_mean.copy(), self.prior_cov.copy()
        self.level, self.run, self.agreement, self.last = 1.0, 0.0, 0.0, 0.0
        self.rows = 0
        self.shape = np.minimum(self.start, 0.5 / (1.0 - self.discounts))
        self.known = self.shape.copy()  # of the rate and the shape, what no row has shown
        self.rate = self.shape.copy()
        self.off, self.pairs = 0.0, []  # the last error of the mean without what is carried; errors before and after

    @property
    def share(self):
        """The share of an error in the next, by discounted least squares with one more row."""
        if not self.carries or not self.pairs:
            return 0.0
        before, after = np.array(self.pairs).T
        ages = 0.995 ** np.arange(len(before))[::-1]
        return min(max(ages @ (before * after) / (ages @ before**2 + 1.0), 0.0), 0.98)

    def go_on(self, value, center, scale, learns):
        """Keep the error of a target, and with `learns` what it says of the share."""
        off = value - center - scale * (self.loc - self.carried)
        off = min(max(off, -REACH * scale), REACH * scale)
        if learns:
            self.pairs.append((self.off / scale, off / scale))
        self.off = off

    def predict(self, phi, tau, extra, scale):
        a = self.decay**tau
        self.at = self.prior_mean + a * (self.mean - self.prior_mean)
        self.P = a * a * self.cov + (1.0 - a * a) * self.prior_cov
        self.phi = phi
        self.carried = self.share * self.off / scale
        self.loc = phi @ self.at + self.carried
        self.var = phi @ self.P @ phi + self.noise + extra
        return self.loc, self.var * self.rate / (self.shape - 1.0)

    def learn(self, y):
        """Return whether the row is an outlier, a change like the row before, and the factor on its variance."""
        error = y - self.loc
        z = error / np.sqrt(self.var)
        in_run = self.run > 0.5
        if self.last != 0.0 and not in_run:
            confirmed = z * self.last > 0.5 * self.last**2
            self.agreement = 0.95 * self.agreement + 0.05 * confirmed
        part = min(max((self.agreement - 0.1) / 0.3, 0.0), 1.0)
        threshold, floor = 16.0 + 48.0 * part, 0.1 + 0.9 * part
        excess = z * z / max(self.level, floor) / threshold
        beyond = excess > 1.0
        change = beyond and in_run and z * self.last > 0.0 and z * z <= 16.0 * self.last**2
        outlier = beyond and not change
        alike = change and 0.5 <= z / self.last <= 2.0
        self.before = self.rate / self.shape
        entering = min(z * z, 4.0 * max(self.level, floor)) if beyond else z * z
        gain = max(0.02, 1.0 / (2.0 * self.start + self.rows + 1.0))
        self.level += gain * (entering - self.level)
        self.rows += 1
        self.run = 0.8 * self.run + 0.2 * beyond
        self.last = z if beyond else 0.0
        raised = excess if outlier else 1.0
        used = min(raised, 1e8)
        counted = self.var * used + (TOGETHER - 1.0) * self.noise * self.carries
        gain = self.P @ self.phi / counted
        self.mean = self.at + gain * (error + self.carried) * np.sqrt(used / raised)
        self.cov = self.P - np.outer(gain, gain) * counted
        square = np.full(len(self.rate), error**2 / self.var)
        if outlier:
            square = np.minimum(square, 4.0 * self.rate / self.shape)
        self.shape = self.discounts * self.shape + 0.5
        self.known = self.discounts * self.known
        self.rate = np.maximum(self.discounts * self.rate + 0.5 * square, 1e-12 * self.shape)
        return outlier, alike, raised

    def apart(self, mean, cov):
        """Return how far from such a prior the mean lies, the square by feature."""
        used = np.flatnonzero(np.diag(cov))
        off = (self.mean - mean)[used]
        return off @ np.linalg.solve(cov[np.ix_(used, used)], off) / len(used)

    def renew(self, mean, cov):
        """Let the belief be what it would be if this had been the prior, by sums of precisions."""
        used = np.flatnonzero(np.diag(cov))
        at = np.ix_(used, used)
        before, after, own = (np.linalg.inv(each[at]) for each in (self.prior_cov, cov, self.cov))
        precision = own + after - before
        said = own @ self.mean[used] + after @ mean[used] - before @ self.prior_mean[used]
        self.cov[at] = np.linalg.inv(precision)
        self.mean[used] = np.linalg.solve(precision, said)
        self.prior_mean, self.prior_cov = mean, cov

    def forget(self):
        """Take back what the last row taught, but for the level of the innovations: the stream has shifted."""
        self.mean, self.cov, self.rate = self.at, self.P, self.before * self.shape
        self.run = self.last = 0.0

    def rescale(self, factor):
        """The unit of the target has become so many times what it was."""
        if abs(np.log(factor)) > np.log(REACH):  # it was far from right, and what was learnt with it is wrong
            self.mean, self.cov = self.prior_mean.copy(), self.prior_cov.copy()
            self.level, self.run, self.agreement, self.last = 1.0, 0.0, 0.0, 0.0
            self.rate = self.shape.copy()
            return
        shown = np.maximum(self.rate - self.known, 0.0)
        self.rate = np.maximum(np.minimum(self.rate, self.known) + shown / factor**2, 1e-12 * self.shape)


@dataclass
class Running:
    """Location and scale of one column."""

    center: float
    log_scale: float
    center_rows: float
    scale_rows: float
    spread: float
    count: int = 0
    leaves: float = LEAVES
    held: tuple = (0.0, 0.0)
    loc: float = 0.0
    var: float = 0.0
    far: int = 0
    moved: bool = False

    @property
    def reach(self):
        return CLIP * np.hypot(self.spread, np.exp(self.log_scale))

    def log_reach(self, n):
        return CLIP * np.sqrt(0.5 / self.scale_rows + 1.36 / n)

    def locate(self):
        n = min(self.count, MEMORY)
        if n == 0:
            return self.center, np.exp(self.log_scale)
        loc, var = self.held
        toward = min(max(self.center, loc - self.reach), loc + self.reach)
        center = (self.center_rows * toward + n * loc) / (self.center_rows + n)
        if n == 1:
            return center, np.exp(self.log_scale)
        least = np.exp(self.log_scale) * 1e-6 ** ((n - 1) / (n - 1 + YOUNG))
        most = np.exp(self.log_scale) * 1e3 ** (n - 1)
        own = np.log(min(max(np.sqrt(var * n / (n - 1)), least), most)) if var else self.log_scale
        toward, reach = self.log_scale, self.log_reach(n)
        if n >= 5:
            toward = min(max(toward, own - reach), own + reach)
        return center, np.exp((self.scale_rows * toward + (n - 1) * own) / (self.scale_rows + n - 1))

    def go_to(self, center, scale, n):
        """Take the location and variance of so many rows with which `locate` finds these."""
        self.count = n
        self.loc = ((self.center_rows + n) * center - self.center_rows * self.center) / n
        if abs(self.center - self.loc) > self.reach:
            side = np.sign(center - self.center)
            self.loc = center + self.center_rows * side * self.reach / (self.center_rows + n)
        more, reach = n - 1, self.log_reach(n)
        own = ((self.scale_rows + more) * np.log(scale) - self.scale_rows * self.log_scale) / more
        if abs(self.log_scale - own) > reach:
            side = np.sign(np.log(scale) - self.log_scale)
            own = np.log(scale) + self.scale_rows * side * reach / (self.scale_rows + more)
        self.var = np.exp(2 * own) * more / n
        self.held = self.loc, self.var

    def hold(self):
        """Go to the running location and variance, unless those in use are held and not far from them."""
        loc, var = self.held
        most = self.leaves**2
        if self.count <= HELD or (self.loc - loc) ** 2 > most * var or not var / most <= self.var <= var * most:
            self.held = self.loc, self.var

    def learn(self, value, scale):
        if np.isnan(value):
            return
        if self.count == 0:
            self.loc, self.var = value, 0.0
        else:
            gain = 1.0 / (min(self.count, MEMORY - 1) + 1)
            off = value - self.loc
            off = min(max(off, -CLIP * scale), CLIP * scale)
            self.loc += gain * off
            self.var = (1 - gain) * (self.var + gain * off**2)
            self.far += abs(value - (self.loc - gain * off)) > REACH * scale
        self.count += 1
        self.hold()

    def learn_input(self, value, scale):
        """Learn it; but where most of the first ones lie far from the location, go to where they lie."""
        far = self.far
        self.learn(value, scale)
        if self.far > far and self.count <= YOUNG and 2 * self.far > self.count and not self.moved:
            self.count, self.loc, self.moved = 1, value, True
            self.hold()


@dataclass
class Row:
    """What is predicted of a row: weights, means and variances of the parts, and the log density of the target."""

    weights: np.ndarray
    mean: np.ndarray
    var: np.ndarray
    log_density: float = field(default=np.nan)


class FleetLoop:
    """One key."""

    def __init__(self, model, which=0):
        self.model, prior = model, model.priors[which]
        e, f, s = model.experts, model.features, model.scales
        self.experts = [
            Expert(
                prior.mean[i],
                prior.root[i] @ prior.root[i].T,
                e.decay[i],
                e.noise_var[i],
                e.discount,
                e.start,
                bool(e.carries[i]),
            )
            for i in range(len(e.decay))
        ]
        self.weights = np.exp(prior.log_weights)
        columns = zip(s.center, s.log_scale, s.center_rows, s.scale_rows, s.spread, strict=True)
        self.columns = [Running(*map(float, column)) for column in columns]
        for column in self.columns[1:]:
            column.leaves = INPUT_LEAVES
        self.shifts = self.renewed = 0
        self.targets, self.first_targets, self.time = [], [], None
        self.lags, self.frequencies = f.lags, f.frequencies
        named = (entry.partition("/") for entry in f.calendar)
        self.periods = [cycle != "weekend" and PERIODS[cycle] / int(faster or 1) for cycle, _, faster in named]
        self.pairs = f.pairs

    def renew(self, which):
        """Go on from another of the model's priors, if the key is like those that this is of."""
        prior = self.model.priors[which]
        new = [(mean, root @ root.T) for mean, root in zip(prior.mean, prior.root, strict=True)]
        if all(expert.apart(*each) <= 2.0 for expert, each in zip(self.experts, new, strict=True)):
            self.renewed += 1
            for expert, each in zip(self.experts, new, strict=True):
                expert.renew(*each)

    @property
    def dof(self):
        return np.concatenate([2.0 * expert.shape for expert in self.experts])

    def features(self, x, time):
        places = [column.locate() for column in self.columns]
        (center, scale), others = places[0], places[1:]
        z = []
        for lag in self.lags:
            z.append((self.targets[-lag] - center) / scale if len(self.targets) >= lag else 0.0)
        for period in self.periods:
            if not period:
                z.append(float(datetime.fromtimestamp(time, UTC).weekday() >= 5))
                continue
            z += [np.sin(2 * np.pi * (time % period) / period), np.cos(2 * np.pi * (time % period) / period)]
        for value, (c, s) in zip(x, others, strict=True):
            z.append((value - c) / s if abs(value - c) <= 1e9 * s else 0.0)
        z = [min(max(each, -REACH), REACH) for each in z]
        root = np.sqrt(len(self.frequencies))
        angles = [sum(w * each for w, each in zip(row, z, strict=True)) for row in self.frequencies]
        waves = [np.cos(a) / root for a in angles] + [np.sin(a) / root for a in angles]
        near = [min(max(each, -FAR), FAR) for each in z]
        return np.array([1.0, *z, *(near[i] * near[j] for i, j in self.pairs), *waves]), places

    def predict(self, x, time):
        phi, self.places = self.features(x, time)
        center, scale = self.places[0]
        tau = 0.0 if self.time is None else max((time - self.time) / self.model.unit, 0.0)
        extra = (self.model.scales.spread[0] / scale) ** 2 if self.columns[0].count == 0 else 0.0
        each = [expert.predict(phi, tau, extra, scale) for expert in self.experts]
        mean = np.concatenate([np.full(len(var), loc) for loc, var in each])
        var = np.concatenate([var for _, var in each])
        return Row(self.weights / self.weights.sum(), center + scale * mean, scale**2 * var)

    def step(self, x, time, y):
        """Predict a row, then learn it."""
        row = self.predict(x, time)
        if np.isnan(y):
            if self.columns[0].count >= YOUNG:  # what was predicted stands as a lag
                self.targets.append(row.weights @ row.mean)
                for expert in self.experts:
                    expert.go_on(self.targets[-1], *self.places[0], learns=False)
            return row
        row.log_density = np.log(row.weights @ density(y, row.mean, row.var, self.dof))
        center, scale = self.places[0]
        dof = self.dof
        found = [expert.learn((y - center) / scale) for expert in self.experts]
        kinds = len(dof) // len(found)
        share = row.weights.reshape(-1, kinds).sum(1)
        outlier = share @ [o for o, _, _ in found] > 0.5
        target = self.columns[0]
        young = target.count < YOUNG
        shift = not young and share @ [c for _, c, _ in found] > 0.5
        raised = np.repeat([r for _, _, r in found], kinds)
        near = density((y - row.mean) / np.sqrt(raised), 0.0, row.var, dof)
        before = self.weights
        self.weights = row.weights * near / (row.weights @ near) * (1 - SHARE) + SHARE / len(near)
        mean = row.weights @ row.mean
        std = np.sqrt(row.weights @ (row.var + (row.mean - mean) ** 2))
        if shift:
            self.weights = before
            self.shifts += 1
            for expert in self.experts:
                expert.forget()
            self.targets = [each + y - mean for each in self.targets]
            # Sixteen rows that are located where the stream is now, in the scale that it had.
            target.go_to(center + y - mean, scale, YOUNG)
        self.targets.append(min(max(y, mean - std), mean + std) if outlier and not young else y)
        for expert in self.experts:
            expert.go_on(self.targets[-1], center, scale, learns=True)
            if shift:
                expert.off = 0.0
        target.learn(np.nan if shift or (outlier and not young) else y, scale)
        if young:
            self.first_targets.append(y)
            target.loc = np.median(self.first_targets)
            deviations = np.abs(np.array(self.first_targets) - target.loc)
            target.var = (1.4826 * np.median(deviations)) ** 2 or np.mean(deviations**2)
            target.held = target.loc, target.var
            if target.count == 2 and abs(np.diff(self.first_targets)[0]) > REACH * scale:
                target.loc = min(self.first_targets, key=lambda each: abs(each - target.center))
                target.held = target.loc, target.var
        for expert in self.experts:
            expert.rescale(target.locate()[1] / scale)
        for value, column, (_, s) in zip(x, self.columns[1:], self.places[1:], strict=True):
            column.learn_input(value, s)
        self.time = time
        return row


def density(y, mean, var, dof):
    """Density of Student's t of these means and variances."""
    scale = np.sqrt(var * (dof - 2) / dof)
    return student.pdf((y - mean) / scale, dof) / scale
