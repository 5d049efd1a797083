"""The one loop of test-then-train: every row is predicted, scored, tested for changes, and only then learnt."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from streamgp.evaluation import Alarms, Conformal, ConformalSets, StepsAhead
from streamgp.evaluation.boosted_trees import BoostedTrees, with_clock
from streamgp.evaluation.references import Experts
from streamgp.evaluation.row_groups import GroupColumn
from streamgp.evaluation.scored_rows import Metrics, ScoredRows, results, score_rows
from streamgp.models.base import FittedExpert
from streamgp.models.contract import Info
from streamgp.numerics import tree
from streamgp.numerics.batching import concatenate
from streamgp.numerics.precision import in_float64
from streamgp.session.by_task import bands_from_tree, check_baselines, metrics_from_tree, new_bands, new_metrics
from streamgp.stream.apart import learner_from_tree
from streamgp.stream.arrivals import Arrivals
from streamgp.stream.late_labels import LIMIT, LateLabels
from streamgp.stream.learner import StreamLearner
from streamgp.table.chunks import Chunk, cut

FAR = 20.0  # standard deviations from the prediction, beyond which a late target is marked as an outlier


@dataclass(frozen=True)
class SessionOptions:
    """What is asked of a session besides the scores.

    Attributes
    ----------
    level
        The share of targets that bands are to hold; None: no bands.
    groups
        Columns that part the rows into groups, in each of which bands are to hold it.
    alarms, horizons
        As in `Session`.
    delay
        How many rows late every label comes, or the name of the column that says when each one does.
    baselines
        Those besides the naive ones: see `streamgp.evaluation.boosted_trees`.
    """

    level: float | None = None
    groups: Sequence[GroupColumn] = ()
    alarms: Alarms | None = None
    horizons: StepsAhead | None = None
    delay: int | str = 0
    baselines: Sequence[str] = ()


@dataclass
class Session:
    """A learner at work on a stream, with all that looks at its predictions before it learns.

    Attributes
    ----------
    learner
        What predicts the rows, and then learns them.
    metrics
        The scores that suit its task.
    bands
        Give each row a band, or a set of classes, from the rows before it.
    alarms
        Tests for changes, of the errors of numbers and counts.
    horizons
        Forecasts several rows ahead and scores them. Not where labels come late.
    arrivals
        The labels on their way, where they come late.
    trees
        LightGBM on the same rows, a baseline that may be asked for.
    """

    learner: StreamLearner
    metrics: Metrics
    bands: Conformal | ConformalSets | None = None
    alarms: Alarms | None = None
    horizons: StepsAhead | None = None
    arrivals: Arrivals | None = None
    trees: BoostedTrees | None = None

    @classmethod
    def begin(cls, learner: StreamLearner, names: Sequence[str], asked: SessionOptions = SessionOptions()) -> Self:
        """Return a session from the learner's next row on, with the scores and bands that suit its task.

        Parameters
        ----------
        learner
            The rest of its warm-up is not scored.
        names
            Those of the targets; of labels and grades, of each of these.
        asked
            What is asked for besides the scores.

        Raises
        ------
        ValueError
            If the level is no share, there are groups of labels or grades, the learner has a horizon and labels
            come late, or a baseline is not to be had.
        """
        delay = asked.delay
        check_baselines(learner.spec.task, asked.baselines, delay)
        task, unscored = learner.spec.task, max(0, learner.warmup - learner.rows)
        known = max(learner.spec.horizon, delay + 1 if isinstance(delay, int) else 0)
        bands = None if asked.level is None else new_bands(task, asked.level, names, unscored, known, asked.groups)
        arrivals = Arrivals(LateLabels(learner, max(LIMIT, known)), delay) if delay else None
        trees = BoostedTrees(len(names), unscored, known) if asked.baselines else None
        metrics = new_metrics(task, names, unscored, known)
        return cls(learner, metrics, bands, asked.alarms, asked.horizons, arrivals, trees)

    def feed(self, rows: Chunk) -> Iterator[ScoredRows]:
        """Predict the rows in order, score them, test them for changes, and learn them; yield consecutive parts.

        Nothing happens until the iterator is advanced, and a part is learnt when it is given: late labels when they
        arrive. `rows.rows` numbers the rows in the stream, for alarms and arrivals.
        """
        if self.arrivals is not None:
            yield from self._feed_late(rows, self.arrivals)
            return
        learner, at, n = self.learner, 0, len(rows.X)
        while at < n:
            by_experts = learner.predicts_by_fit
            most = n if self.horizons is None else self.horizons.rows_to_origin(learner, _clock(learner, rows, at))
            part = cut(rows, slice(at, at + most))
            info = next(learner.learn(part.X, part.y, part.times))
            part = cut(part, slice(len(info.outside)))
            scored = self.score(info, part, by_experts, start=at, flagged=_find_flagged(learner, info))
            if self.horizons is not None:
                times = part.X[:, learner.settings.categories.dates]
                ahead = self.horizons.add(part.y, times, _clock(learner, part))
                scored = scored._replace(ahead=ahead)
            yield scored
            at += len(part.X)

    def _feed_late(self, rows: Chunk, arrivals: Arrivals) -> Iterator[ScoredRows]:
        """Predict the rows as they come, and learn their labels as these do; score at once what is learnt later.

        After the warm-up rows that are alike are scored together, as to score one takes as long as to score many:
        nothing that is predicted hangs on it. Outliers are found when they are learnt. As one is marked, for the
        scores without outliers, a row whose target is more than `FAR` standard deviations from what was predicted.
        """
        now, when = arrivals.clock(rows.rows, rows.times, rows.arrives)
        missing = np.asarray(np.isnan(rows.y).any(axis=1))
        learner, at, made = self.learner, 0, _Made(0, [], False, ())
        while at < len(rows.X):
            arrivals.deliver(float(now[at]))
            others = np.flatnonzero(missing[at:] != missing[at])  # rows with a target, and without, are scored apart
            stop = at + min([arrivals.quiet(now[at:], when[at:]), *others[:1]])
            times = None if rows.times is None else rows.times[at:stop]
            for numbers, info in arrivals.late.predict(rows.X[at:stop], times):
                part = slice(at, at + len(numbers))
                if made.infos and not (missing[at] == missing[made.start] and made.takes(info, learner)):
                    yield self._score_late(rows, made, at)
                    made = made._replace(infos=[])
                if not made.infos:
                    made = _Made(at, [], learner.is_warmed_up, learner.experts)
                made.infos.append(info)
                arrivals.send(numbers, when[part], rows.y[part])
                at = part.stop
                if not made.by_experts:  # the next prediction may end the warm-up, with what the scores begin at
                    yield self._score_late(rows, made, at)
                    made = made._replace(infos=[])
        if made.infos:
            yield self._score_late(rows, made, at)

    def _score_late(self, rows: Chunk, made: "_Made", stop: int) -> ScoredRows:
        """Score rows of a chunk that were predicted one after the other, up to one of them."""
        info, part = concatenate(made.infos), cut(rows, slice(made.start, stop))
        far = _far_out(self.learner, info, part.y, made.by_experts)
        return self.score(info, part, made.by_experts, start=made.start, flagged=far)

    def score(
        self,
        info: Info,
        rows: Chunk,
        by_experts: bool,
        *,
        start: int = 0,
        flagged: np.ndarray | None = None,
        in_time: np.ndarray | None = None,
    ) -> ScoredRows:
        """Score rows that were predicted, and let metrics, bands and alarms learn from them.

        Parameters
        ----------
        info, by_experts
            What was predicted, and whether the fitted model did.
        rows
            The rows, with their targets.
        start
            Where in a chunk they begin.
        flagged
            Which of them are outliers; None of models that set none aside.
        in_time
            Which of them were predicted as the next row to be learnt: only their errors are independent of each
            other, and tested. None: all.
        """
        predictive, learner = info.predictive, self.learner
        scores, (persistence, running) = score_rows(self.metrics, learner, predictive, rows, flagged)
        mixed = np.exp(predictive.log_weights) if info.weights is None else info.weights
        weights = np.asarray(mixed) if by_experts else None
        rules = np.asarray(info.rules) if by_experts and info.rules is not None else None
        # Only bands of numbers and counts have groups.
        more = (rows.X, rows.rows) if isinstance(self.bands, Conformal) else ()
        band = None if self.bands is None else self.bands.of_rows(predictive, scores, *more)
        if self.trees is not None:
            lags = learner.spec.lags if learner.is_warmed_up else ()
            inputs = with_clock(rows.X, learner.categories)
            self.trees.add(inputs, rows.y, np.asarray(predictive.mean), lags, flagged)
        experts = Experts.of(predictive, learner.experts if by_experts else ())
        scored = ScoredRows(start, scores, weights, rules, persistence, running, band, flagged, experts=experts)
        if self.alarms is not None:
            before = self.alarms.count
            self._test(self.alarms, scored, rows, in_time)
            if isinstance(self.bands, Conformal):
                self.alarms.join(before, self.bands.alarms(rows.rows, rows.times))
        return scored

    def _test(self, alarms: Alarms, scored: ScoredRows, rows: Chunk, in_time: np.ndarray | None) -> None:
        """Test rows for changes."""
        # Only numbers and counts have alarms.
        scores: Any = scored.scores
        experts, times, numbers = scored.experts, rows.times, rows.rows
        if in_time is not None and not in_time.all():
            if not in_time.any():
                return
            scores = type(scores)(*(np.asarray(a)[in_time] for a in scores))
            experts = None if experts is None else experts.take(in_time)
            numbers, times = numbers[in_time], None if times is None else times[in_time]
        alarms.add(scores, numbers, times, tested=scored.by_experts, experts=experts)

    def results(self) -> dict[str, Any]:
        """Return the scores, those of bands and of forecasts several rows ahead, and how late labels came."""
        found = results(self.metrics, self.learner)
        if self.trees is not None:
            self.trees.join(found)
        if self.bands is not None:
            found["conformal"] = self.bands.result()
        if self.horizons is not None:
            found["steps_ahead"] = self.horizons.result()
        if self.arrivals is not None:
            found["late_labels"] = self.arrivals.result()
        return found

    def to_tree(self) -> dict[str, Any]:
        """Return everything that a checkpoint needs."""
        parts = {name: getattr(self, name) for name in ("learner", "metrics", *_OPTIONAL)}
        return {name: None if part is None else part.to_tree() for name, part in parts.items()}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Self:
        """Return the session whose `to_tree` gave `tree`; it goes on as if nothing had happened."""
        learner = learner_from_tree(tree["learner"])
        task, (bands, alarms, horizons, arrivals, trees) = learner.spec.task, (tree[name] for name in _OPTIONAL)
        return cls(
            learner,
            metrics_from_tree(task, tree["metrics"]),
            None if bands is None else bands_from_tree(task, bands),
            None if alarms is None else Alarms.from_tree(alarms),
            None if horizons is None else StepsAhead.from_tree(horizons),
            None if arrivals is None else Arrivals.from_tree(learner, arrivals),
            None if trees is None else BoostedTrees.from_tree(trees),
        )


class _Made(NamedTuple):
    """Predictions of rows from `start` on that may be scored together, by the fitted `experts` or none."""

    start: int
    infos: list[Info]
    by_experts: bool
    experts: Sequence[FittedExpert]

    def takes(self, info: Info, learner: StreamLearner) -> bool:
        """Return whether the next prediction goes with these: it has the same parts, and the same experts made it."""
        alike = learner.is_warmed_up == self.by_experts and learner.experts is self.experts
        return alike and tree.form_of_rows(info) == tree.form_of_rows(self.infos[0])


_OPTIONAL = ("bands", "alarms", "horizons", "arrivals", "trees")


def _clock(learner: StreamLearner, rows: Chunk, start: int = 0) -> np.ndarray | None:
    """Return the times of rows from one of them on by the stream's clock, where it has one."""
    times = learner.settings.clock(rows.X, rows.times)
    return None if times is None else times[start:]


def _find_flagged(learner: StreamLearner, info: Info) -> np.ndarray | None:
    """Mark the rows that were set aside as outliers; None for models that set none aside."""
    if not learner.settings.task.flags_outliers:
        return None
    return np.zeros(len(info.outside), bool) if info.flagged is None else np.asarray(info.flagged)


@in_float64
def _far_out(learner: StreamLearner, info: Info, y: np.ndarray, by_experts: bool) -> np.ndarray | None:
    """Mark rows whose target is far out, once the model is fitted; None for models that set no outliers aside."""
    if not learner.settings.task.flags_outliers:
        return None
    if not by_experts:
        return np.zeros(len(y), bool)
    off = np.abs(y - np.asarray(info.predictive.mean))
    return np.any(off > FAR * np.asarray(info.predictive.std), axis=1)
