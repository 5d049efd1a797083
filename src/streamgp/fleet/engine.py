"""The engine of a fleet: predictions before the warm-up ends, the fit at its end, and the renewal of priors."""

from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from streamgp.evaluation.steps_ahead import RowsAhead
from streamgp.fleet import targets
from streamgp.fleet.common_errors import CommonErrors
from streamgp.fleet.directory import Directory
from streamgp.fleet.forecasts import persisting
from streamgp.fleet.frames import FleetColumns
from streamgp.fleet.hibernating_keys import HibernatingKeys
from streamgp.fleet.levels import TextInputs
from streamgp.fleet.local_keys import Keys, LocalKeys, Outcome, joined
from streamgp.fleet.mixture import Mixture
from streamgp.fleet.model import FleetModel
from streamgp.fleet.pooling import group_priors, pooled_prior
from streamgp.fleet.prior import PooledPrior
from streamgp.fleet.provisional import Provisional
from streamgp.fleet.ray_keys import RayKeys
from streamgp.fleet.scores import no_scores
from streamgp.fleet.settings import FleetSettings
from streamgp.fleet.steps import Steps
from streamgp.fleet.warmup import DOF, PooledRows, fit_fleet
from streamgp.likelihoods import TargetMap
from streamgp.progress import Bar

# A key's rows count towards the warm-up after so many targets.
HISTORY = 4
# The warm-up ends after so many times its length, whatever the rows are.
MAX_WARMUP = 512
NEVER = 1 << 62  # rows
# The keys' prior is found anew each time there are so many times the rows.
GROWTH = 2.0**0.5


@runtime_checkable
class Observer(Protocol):
    """What looks on while an engine learns, and forecasts from where it stands: `FleetStepsAhead`."""

    def rows_to_origin(self, key: Int[np.ndarray, " n"], engine: "FleetEngine") -> int:
        """Forecast what is due before these keys' rows; return how many of them may be learnt at once."""
        ...

    def add(self, rows: PooledRows, target: TargetMap) -> RowsAhead:
        """Score rows that were learnt."""
        ...


class FleetEngine:
    """Predicts and learns rows of numbered keys, with targets on the scale on which they are learnt.

    Parameters
    ----------
    settings
        Of the fleet.
    columns
        Of the frames: which inputs are text, and whether times are seconds since 1970: then there is a calendar.
    keys
        What holds the states of all keys.
    directory
        Which knows the group of every key.

    Attributes
    ----------
    rows
        Learnt so far, those without a target among them.
    refresh_at
        The number of rows after which the prior of all keys is found anew.
    fitted_at
        The number of rows of the warm-up, once it has ended.
    model
        None during the warm-up.
    """

    _SHARED = ("rows", "refresh_at", "fitted_at", "counted", "model")

    def __init__(self, settings: FleetSettings, columns: FleetColumns, keys: Keys, directory: Directory) -> None:
        self.settings, self.dated, self.keys = settings, columns.dated, keys
        self.zone = columns.zone
        self._directory, self._texts = directory, TextInputs(columns.text_places, directory)
        self.rows = self.refresh_at = 0
        self.fitted_at = NEVER
        # The number of rows that count towards the warm-up.
        self.counted = 0
        self.model: FleetModel | None = None
        self.provisional = Provisional()
        # Of what the fitted model predicted.
        self.common = CommonErrors()
        self.waiting: list[PooledRows] = []
        # Whether a call ended halfway.
        self.broken = False

    def predict(
        self,
        key: Int[np.ndarray, " n"],
        times: Float[np.ndarray, " n"],
        X: Float[np.ndarray, "n d"],
        group: Int[np.ndarray, " n"],
    ) -> Mixture:
        """Predict rows, each as if it were the next one of its key.

        A key that is not known has a number below 0, and starts from the prior of its group.
        """
        if self.model is None:
            return _as_mixture([self.provisional.predict(k) for k in key.tolist()])
        return self.keys.predict(key, times, self._texts.encode(X), self.model.prior_of(group))

    def forecast(
        self, key: Int[np.ndarray, " k"], times: Float[np.ndarray, "k h"], X: Float[np.ndarray, "k h d"]
    ) -> Mixture:
        """Forecast several rows of each key, those of the first key first."""
        if self.model is None:
            return persisting(self.provisional, key, times.shape[1])
        known = self._texts.encode(X.reshape(times.size, X.shape[2])).reshape(X.shape)
        return self.keys.forecast(key, times, known)

    def learn(
        self,
        key: Int[np.ndarray, " n"],
        times: Float[np.ndarray, " n"],
        X: Float[np.ndarray, "n d"],
        y: Float[np.ndarray, " n"],
        bar: Bar | None = None,
        observer: Observer | None = None,
    ) -> Outcome:
        """Predict rows, then learn them; new keys are numbered on from those known. NaN targets are not learnt.

        An `observer` forecasts the next rows of each key from time to time, and scores them.
        """
        rows, parts = PooledRows(key, times, self._texts.learn(key, X, y), y), []
        at = 0
        while at < len(key):
            learn = self._learn_provisionally if self.model is None else self._learn_fitted
            most = len(key) if observer is None or self.model is None else observer.rows_to_origin(key[at:], self)
            found = learn(rows.part(slice(at, at + most)))
            learnt = slice(at, at + len(found.log_density))
            if observer is not None:
                found = found._replace(ahead=observer.add(rows.part(learnt), self.settings.target_map))
            parts.append(found)
            at = learnt.stop
            if bar is not None:
                bar.at(at)
        return joined(parts or [Outcome.empty(0)])

    def scores(self) -> dict[str, np.ndarray]:
        """Return the counts and scores of every key; NaN where there are none yet."""
        of = self._directory
        found: dict[str, np.ndarray] = {name: getattr(of, name).astype(np.int64) for name in Directory.COUNTS}
        found["last_seen"] = of.seen
        if of.groups:
            found["group"] = np.array(of.groups)[of.group]
        return found | (no_scores(len(of)) if self.model is None else dict(self.keys.scores()))

    def shared(self) -> dict[str, Any]:
        """Return what is not any key's own, for `restore`."""
        waiting = [tuple(rows) for rows in self.waiting]
        own = {name: getattr(self, name) for name in self._SHARED}
        return own | {"waiting": waiting, "texts": self._texts.to_tree(), "common": self.common.to_tree()}

    def restore(self, shared: dict[str, Any], frozen: bool) -> None:
        """Go on from what `shared` returned; with `frozen`, as a part of a fleet whose priors come from the whole."""
        for name in self._SHARED:
            setattr(self, name, shared[name])
        self.waiting = [PooledRows(*rows) for rows in shared["waiting"]]
        self._texts.restore(shared["texts"])
        self.common.restore(shared["common"])
        if self.model is not None:
            self.keys.use(self.model)
        for rows in self.waiting:
            for k, y in zip(rows.key.tolist(), rows.y.tolist(), strict=True):
                if y == y:
                    self.provisional.learn(k, y)
        if frozen:
            if self.model is None:
                raise ValueError(
                    "shards: expected a fleet after its warm-up, got one that is still in it; load it whole"
                )
            self.refresh_at = NEVER

    def _learn_provisionally(self, rows: PooledRows) -> Outcome:
        """Learn rows until the warm-up ends, then fit; return what was predicted of these."""
        predicted, most = [], MAX_WARMUP * self.settings.warmup
        for k, y in zip(rows.key.tolist(), rows.y.tolist(), strict=True):
            predicted.append(self.provisional.predict(k))
            if y == y:
                self.counted += self.provisional.rows(k) >= HISTORY
                self.provisional.learn(k, y)
            if self.counted >= self.settings.warmup or self.rows + len(predicted) >= most:
                break
        rows = PooledRows(*(a[: len(predicted)].copy() for a in rows))
        mixture = _as_mixture(predicted)
        self.waiting.append(rows)
        self.rows += len(predicted)
        if self.counted >= self.settings.warmup or self.rows >= most:
            self._fit()
        return Outcome(mixture, targets.log_density(mixture, rows.y, self.settings.target_map))

    @property
    def steps(self) -> Steps:
        """How far apart the rows of a key came in the warm-up."""
        if self.model is not None:
            return self.model.steps
        rows = self._waiting_rows()
        return Steps.of(rows.key, rows.times, self.dated, self.zone)

    def _waiting_rows(self) -> PooledRows:
        return PooledRows(*(np.concatenate(each) for each in zip(*self.waiting, strict=True)))

    def _fit(self) -> None:
        rows = self._waiting_rows()
        self.model = fit_fleet(rows, self.settings, self.dated, self.zone)
        self.waiting, self.provisional = [], Provisional()
        self.fitted_at, self.refresh_at = self.rows, due_after(self.rows)
        self.keys.use(self.model)
        self._learn_with_errors(rows, self.model.prior_of(rows.key * 0), scored=False)
        if self.settings.group_col is not None:
            self._pool(self.model.priors[0])

    def _learn_fitted(self, rows: PooledRows) -> Outcome:
        """Learn rows until the prior of all keys is due again; return what was predicted of these."""
        rows = PooledRows(*(a[: self.refresh_at - self.rows] for a in rows))
        assert self.model is not None
        prior = self.model.prior_of(self._directory.group[rows.key])
        found = self._learn_with_errors(rows, prior, scored=True)
        self.rows += len(rows.key)
        if self.rows == self.refresh_at:
            self._pool(None)
            self.refresh_at = due_after(self.rows)
        return found

    def _learn_with_errors(self, rows: PooledRows, prior: Int[np.ndarray, " n"], scored: bool) -> Outcome:
        """Let the keys learn rows, and the errors of different keys tell how far they go together."""
        found = self.keys.learn(*rows, prior, scored=scored)
        mean, std = found.mixture.moments
        target = self.settings.target_map
        if target.transform is not None:  # to first order
            rows, std = rows._replace(y=target.inverse(rows.y)), target.scale_at(mean, std)
            mean = target.inverse(mean)
        self.common.learn(rows.times, self._directory.group[rows.key], rows.y - mean, std)
        return found

    def _pool(self, fleet: PooledPrior | None) -> None:
        """Find the keys' priors anew: that of the whole fleet, if it is not given, and those of its groups."""
        assert self.model is not None
        priors, groups = self.model.priors, max(len(self._directory.groups), 1)
        sums = self.keys.sums(self._directory.group, groups)
        fleet = pooled_prior(sums, priors[0]) if fleet is None else fleet
        of_groups = [] if self.settings.group_col is None else group_priors(sums, fleet)
        which = list(range(len(priors), len(priors) + len(of_groups)))
        self.model = replace(self.model, priors=[*priors, *of_groups, fleet], by_group=which)
        self.keys.use(self.model)
        self.keys.renew(self.model.prior_of(self._directory.group))


def due_after(rows: int) -> int:
    """Return after how many rows the prior that was found after so many is found anew."""
    return int(GROWTH * rows) + 1


def new_keys(settings: FleetSettings, directory: Directory) -> Keys:
    """Return what holds the states of a new fleet's keys."""
    if settings.workers is not None:
        return RayKeys(settings.workers, directory)
    return LocalKeys() if settings.max_active is None else HibernatingKeys(settings.max_active, settings.directory)


def _as_mixture(predicted: list[tuple[float, float]]) -> Mixture:
    """Return mixtures of parts that are all the same, from means and variances."""
    both = np.reshape(np.array(predicted, float), (-1, 2, 1))
    mean, var = (np.repeat(both[:, i], len(DOF), axis=1) for i in range(2))
    return Mixture(np.full(mean.shape, -np.log(len(DOF))), mean, var, np.broadcast_to(DOF, mean.shape))
