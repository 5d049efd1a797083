"""Several targets of which some are missing in some rows: each has a model of its own, that learns every value.

An ensemble's filters share one covariance of the weights among the targets, which a row either changes for all or for
none. So from the first row of the warm-up on that has some of the targets and not all, each target is learnt by
itself, with the rows that have it, as a stream with that target alone would be; how their errors go together is
learnt beside. Where all targets are there until the warm-up's end, one model learns all of them, and rows with some
of them teach it nothing. Once such rows have become many (see `MANY`), as when a sensor has died, each target goes on
by itself from what was learnt of it; but not with lags, which are those of all targets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from streamgp.likelihoods import AnyPredictive, SideBySide, side_by_side
from streamgp.models.contract import Info, SeparableModel
from streamgp.numerics.batching import concatenate
from streamgp.numerics.standardise import Standardiser
from streamgp.stream.learn_step import first_state, leading
from streamgp.stream.learner import StreamLearner
from streamgp.stream.paths import generator
from streamgp.stream.rows import RawRows
from streamgp.stream.settings import StreamSettings
from streamgp.stream.state import StreamState
from streamgp.stream.warmup import Progress, known_rows

SCARCE, MANY = 4, 200  # a row with some of the targets counts 4, one with all takes 1 off: 50 in a row are many


@dataclass(frozen=True)
class TargetsState(StreamState):
    """All that is known of several targets: of a model of all, until each has one of its own.

    Attributes
    ----------
    parts
        The state of each target's own model. The rest is then what all have in common, or that of the first one.
    scarce_then, counted_at
        How often rows after the warm-up had some of the targets and not all, and how many rows had been learnt then.
    """

    parts: tuple[StreamState, ...] = ()
    scarce_then: int = 0
    counted_at: int = 0

    @classmethod
    def of(cls, state: StreamState) -> Self:
        """Return the same of a model of all targets."""
        return state if isinstance(state, cls) else cls(**vars(state))

    @classmethod
    def of_parts(cls, parts: Sequence[StreamState], **shared: Any) -> Self:
        """Return the state of targets that have these states, with some fields that are of all of them."""
        first, warm = parts[0], all(part.is_warmed_up for part in parts)
        count = np.asarray(first.targets.count)
        each = [part.targets.m2 * (count / max(float(part.targets.count), 1.0)) for part in parts]
        mean = np.concatenate([part.targets.mean for part in parts])
        return replace(
            cls.of(first),
            outside_rows=max(part.outside_rows for part in parts),
            restarted=frozenset().union(*(part.restarted for part in parts)),
            experts=first.experts if warm else (),
            warmup_rows=None if warm else (),
            targets=Standardiser(count, mean, np.concatenate(each)),
            parts=tuple(parts),
            **shared,
        )

    @property
    def scarce(self) -> int:
        """How often rows had some of the targets and not all, of late."""
        return max(0, self.scarce_then - (self.rows - self.counted_at))

    @property
    def models(self) -> tuple[StreamState, ...]:
        """What is known of each model that predicts targets by itself: of all targets, or of each."""
        return self.parts or (self,)

    @property
    def last_time(self) -> float | None:
        """The time stamp of the last row learnt."""
        if not self.parts:
            return super().last_time
        return max((part.last_time for part in self.parts if part.last_time is not None), default=None)

    @property
    def weights(self) -> np.ndarray:
        """The experts' weights for the next row; the mean of all targets' own."""
        return _mean_of_alike([part.weights for part in self.parts]) if self.parts else super().weights

    @property
    def rules(self) -> dict[str, float]:
        """How much each of several weight rules counts for the next row, by name; the mean of all targets' own."""
        if not self.parts:
            return super().rules
        each = [part.rules for part in self.parts]
        return {name: float(np.mean([rules[name] for rules in each])) for name in each[0]} if all(each) else {}

    @property
    def share_working(self) -> float:
        """Which share of the models' filters has worked since the warm-up, in the mean over the rows."""
        return float(np.mean([part.share_working for part in self.parts])) if self.parts else super().share_working

    @property
    def local_models(self) -> list[dict[str, Any]]:
        """When each local Gaussian process was born and where it is; none of targets that are learnt apart."""
        return [] if self.parts else super().local_models

    def to_tree(self, settings: StreamSettings) -> dict[str, Any]:
        """Return everything that a checkpoint needs, as nested dictionaries of plain values, arrays and modules."""
        if not self.parts:
            return super().to_tree(settings) | {"scarce": [self.scarce_then, self.counted_at]}
        return _shared(self) | {"apart": [part.to_tree(settings.of_one_target) for part in self.parts]}

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> tuple[StreamSettings, Self]:
        """Return what `to_tree` was given."""
        if "apart" in tree:
            settings, parts = zip(*map(StreamState.from_tree, tree["apart"]), strict=True)
            shared = {name: tree[name] for name in _SHARED}
            return replace(settings[0], num_outputs=len(parts)), cls.of_parts(parts, **shared)
        settings, state = super().from_tree(tree)
        scarce, rows = tree["scarce"]
        if not 0 <= rows <= state.rows or scarce < 0:
            raise ValueError(f"expected counts of rows that were learnt, got {scarce} and {rows} of {state.rows}")
        return settings, replace(state, scarce_then=scarce, counted_at=rows)


_SHARED = "rows", "imputed_values", "flagged_rows", "correlation"  # of a checkpoint of targets that are learnt apart


def _shared(state: StreamState) -> dict[str, Any]:
    """Return what targets that are learnt apart have in common."""
    return {name: getattr(state, name) for name in _SHARED}


class TargetsLearner(StreamLearner):
    """Learns several targets by a model of all or, where rows have some of them, by a learner of each.

    Parameters are those of `StreamLearner`.
    """

    state_type: ClassVar[type[StreamState]] = TargetsState

    def _set_up(self, settings: StreamSettings, state: StreamState, progress: Progress) -> None:
        super()._set_up(settings, state, progress)
        self._learners: list[StreamLearner] | None = None  # of each target, once there are some

    @property
    def state(self) -> StreamState:
        """All that was learnt."""
        if self._learners is None:
            return super().state
        parts = [one.state for one in self._learners]
        if any(new is not old for new, old in zip(parts, self._state.models, strict=True)):
            self._state = TargetsState.of_parts(parts, **_shared(self._state))
        return self._state

    @state.setter
    def state(self, state: StreamState) -> None:
        self._state, self._latest, self._learners = state, None, None

    @property
    def last_time(self) -> float | None:
        """The time stamp of the last row learnt."""
        if self._learners is None:
            return super().last_time
        return max((one.last_time for one in self._learners if one.last_time is not None), default=None)

    @property
    def predicts_by_fit(self) -> bool:
        """Whether the next row is, or was, predicted by the fitted models."""
        return self.is_warmed_up if self._is_apart else super().predicts_by_fit

    @property
    def max_batch(self) -> int:
        """How many of the coming rows are learnt in one go at most."""
        return min(one.max_batch for one in self._each) if self._is_apart else super().max_batch

    @property
    def _learns_singly(self) -> bool:
        return not self._is_apart and super()._learns_singly

    @property
    def _is_apart(self) -> bool:
        """Whether each target is learnt by itself."""
        return isinstance(self._state, TargetsState) and bool(self._state.parts)

    @property
    def _targets(self) -> TargetsState:
        return TargetsState.of(self.state)

    @property
    def _each(self) -> list[StreamLearner]:
        """Return the learner of each target, which goes on from row to row."""
        if self._learners is None:
            self._learners = [self._of_one(part) for part in self._targets.parts]
        return self._learners

    def _of_one(self, part: StreamState) -> StreamLearner:
        return StreamLearner.at(self.settings.of_one_target, part, self.progress)

    def predict_next(self, X: np.ndarray, times: np.ndarray | None) -> AnyPredictive:
        """Predict each row as if it were the next one, on the scale that is learnt."""
        if not self._is_apart:
            return super().predict_next(X, times)
        return self._beside([one.predict_next(X, times) for one in self._each])

    def predict_after(self, rows: RawRows, unlearnt: np.ndarray, *, following: bool = True) -> Info:
        """Predict rows after others that were not learnt: see `StreamLearner.predict_after`."""
        if not self._is_apart:
            return super().predict_after(rows, unlearnt, following=following)
        infos = [one.predict_after(rows, unlearnt[:, [e]], following=following) for e, one in enumerate(self._each)]
        return _joined(infos, self._beside([info.predictive for info in infos]))

    def predicted_at(self, X: np.ndarray, time: float | None = None) -> AnyPredictive:
        """Return what is predicted of the next target at inputs without gaps."""
        if not self._is_apart:
            return super().predicted_at(X, time)
        return self._beside([one.predicted_at(X, time) for one in self._each])

    def paths(
        self, X: np.ndarray, times: np.ndarray | None, n: int, rng: np.random.Generator | None = None
    ) -> np.ndarray:
        """Draw the targets of the next h rows n times: (n, h, E); those of each target by themselves."""
        if not self._is_apart:
            return super().paths(X, times, n, rng)
        rng = rng or generator(self.settings, self.state)
        return np.concatenate([one.paths(X, times, n, rng) for one in self._each], axis=2)

    def kept_rows(self) -> np.ndarray:
        """Return inputs of rows of the whole stream without gaps."""
        return self._each[0].kept_rows() if self._is_apart else super().kept_rows()

    def has_influence(self) -> bool:
        """Return whether there are inputs of the models, and rows enough, for `influence`."""
        return all(one.has_influence() for one in self._each) if self._is_apart else super().has_influence()

    def influence(
        self, groups: Mapping[str, Sequence[int]], log_exposure: Sequence[float] = ()
    ) -> dict[str, np.ndarray]:
        """Return which share of each target's variance predictions take from each input, by its name."""
        if not self._is_apart:
            return super().influence(groups, log_exposure)
        found = [one.influence(groups) for one in self._each]
        names = dict.fromkeys(name for each in found for name in each)
        return {name: np.concatenate([each.get(name, np.zeros(1)) for each in found]) for name in names}

    def learn_leading(self, rows: RawRows, *, predicts: bool = True) -> Info:
        """Learn as many of the leading rows as go together: see `StreamLearner.learn_leading`."""
        if self._steps_from(rows):
            return super().learn_leading(rows.part(slice(1)), predicts=predicts)
        part = rows.part(slice(self.max_batch)) if len(rows.X) > 1 else rows  # to ask for it ends work on single rows
        if self._is_apart:
            return self._learn_each(part)
        absent = np.isnan(part.y)
        partial = np.asarray(absent.any(axis=1) & ~absent.all(axis=1))
        if not self.is_warmed_up:
            if partial[0]:
                self.state = self._taken_apart()
                return self.learn_leading(rows)
            info = super().learn_leading(part.part(slice(leading(~partial))))
            self.state = self._targets
            return info
        state = self._targets
        if not np.isnan(part.y[0]).any() or not isinstance(state.model, SeparableModel) or state.inputs.lags:
            return super().learn_leading(part)
        part = part.part(slice(leading(np.asarray(absent.any(axis=1)))))
        scarce = state.scarce + SCARCE * np.cumsum(partial[: len(part.X)])
        n = leading(scarce < MANY)
        info = super().learn_leading(part.part(slice(n + 1)))
        now = int(scarce[len(info.outside) - 1])
        self.state = replace(self._targets, scarce_then=now, counted_at=state.rows)
        if now >= MANY:
            self.state = self._going_on_apart()
        return info

    def _learn_each(self, rows: RawRows) -> Info:
        """Learn rows, so few that no target's model has a boundary in their midst: by each, then how they go."""
        infos, learners, state = [], self._each, self._state
        for e, one in enumerate(learners):
            infos.append(concatenate(list(map(_whole, _learn_all(one, rows._replace(y=rows.y[:, [e]]))))))
        assert state.correlation is not None
        predictive = side_by_side([info.predictive for info in infos])
        correlation, matrices = state.correlation.learn(predictive, rows.y)
        info = _joined(infos, replace(predictive, correlation=matrices[:-1]))
        self._state = replace(
            state,
            rows=state.rows + int((~np.isnan(rows.y)).any(axis=1).sum()),
            imputed_values=state.imputed_values + int(np.isnan(rows.X).sum()),
            flagged_rows=state.flagged_rows + int(np.count_nonzero(np.asarray(info.flagged))),
            correlation=correlation,
        )
        if any(one.latest_fit is not part for one, part in zip(learners, state.models, strict=True)):
            self._state = TargetsState.of_parts([one.state for one in learners], **_shared(self._state))
        return info

    def _taken_apart(self) -> TargetsState:
        """Return the state after the warm-up's rows so far, had each target been learnt by itself from the start."""
        known, one = known_rows(self.state), self.settings.of_one_target
        known = known if self.timed else known._replace(times=None)
        start = replace(first_state(one, self.state.num_classes, one.categories), passed=self.state.passed)
        parts = []
        for e in range(self.num_outputs):
            learner = self._of_one(start)
            _learn_all(learner, known._replace(y=known.y[:, [e]]))
            parts.append(learner.state)
        return self._of_parts(parts)

    def _going_on_apart(self) -> TargetsState:
        """Return the state from which on each target of a fitted model is learnt by itself."""
        state, parts = self._targets, []
        count = np.asarray(state.targets.count)
        assert isinstance(state.model, SeparableModel)
        for e in range(self.num_outputs):
            model, model_state = state.model.of_output(state.model_state, e)
            own = replace(
                state,
                model=model,
                model_state=model_state,
                inputs=replace(state.inputs, effects=state.inputs.effects.of_target(e)),
                targets=Standardiser(count, state.targets.mean[e : e + 1], state.targets.m2[e : e + 1]),
                reservoir=None if state.reservoir is None else state.reservoir.of_target(e),
                sample=None if state.sample is None else state.sample.of_target(e),
                correlation=None,
                target_range=None if state.target_range is None else state.target_range.of_target(e),
                scarce_then=0,
            )
            parts.append(own)
        return self._of_parts(parts)

    def _of_parts(self, parts: Sequence[StreamState]) -> TargetsState:
        return TargetsState.of_parts(parts, **_shared(self.state))

    def _beside(self, parts: Sequence[Any]) -> SideBySide:
        """Join the predictions of the targets of rows that each might be the next one."""
        assert self._state.correlation is not None
        return self._state.correlation.of(side_by_side(parts))


def new_learner(settings: StreamSettings, num_classes: int = 0) -> StreamLearner:
    """Return the learner of one target or several, with the parameters of `StreamLearner`."""
    learner = StreamLearner(settings, num_classes=num_classes)
    several = settings.correlates and not settings.horizon
    return TargetsLearner.at(settings, TargetsState.of(learner.state)) if several else learner


def learner_from_tree(tree: dict[str, Any]) -> StreamLearner:
    """Return the learner whose `to_tree` gave `tree`; it goes on as if nothing had happened."""
    several = "apart" in tree or "scarce" in tree
    return (TargetsLearner if several else StreamLearner).from_tree(tree)


def _learn_all(learner: StreamLearner, rows: RawRows) -> list[Info]:
    infos = []
    while len(rows.X):
        infos.append(learner.learn_leading(rows))
        rows = rows.part(slice(len(infos[-1].outside), None))
    return infos


def _joined(infos: Sequence[Info], predictive: Any) -> Info:
    """Return the reports on every target's model as one, of this prediction: weights are means over the targets."""
    rules, flagged = ([getattr(info, name) for info in infos] for name in ("rules", "flagged"))
    return Info(
        predictive,
        np.any([info.outside for info in infos], axis=0),
        None if any(each is None for each in rules) else _mean_of_alike(rules),
        _mean_of_alike([_weights(info) for info in infos]),
        np.any([each for each in flagged if each is not None], axis=0)
        if any(f is not None for f in flagged)
        else None,
    )


def _whole(info: Info) -> Info:
    """Return a report with weights and outliers, also of rows that had no target."""
    n = len(info.outside)
    flagged = np.zeros(n, bool) if info.flagged is None else np.asarray(info.flagged)
    return Info(info.predictive, np.asarray(info.outside), info.rules, _weights(info), flagged)


def _weights(info: Info) -> np.ndarray:
    return np.asarray(np.exp(info.predictive.log_weights) if info.weights is None else info.weights)


def _mean_of_alike(weights: Sequence[np.ndarray]) -> np.ndarray:
    """Return the mean of several targets' weights; those of the first one where another has other experts."""
    return np.mean(weights, axis=0) if len({w.shape for w in weights}) == 1 else weights[0]
