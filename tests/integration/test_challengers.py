"""A challenger gets the rows of a stream, is compared with its model, and takes its place, after a crash too."""

from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

from live_streams import KINDS, PATIENCE, Y, copied, known, learn, numbers, predict, rows, same, step, working
from streamgp.service import challenger as one
from streamgp.service import challengers as several
from streamgp.service import challenging
from streamgp.service.live_stream import LiveStream
from streamgp.service.payload import rows_with_inputs
from streamgp.service.problems import Problem

pytestmark = pytest.mark.slow

# Of the challengers, beside the streams of `KINDS`.
OTHERS: dict[str, dict[str, Any]] = {
    "single": {"lags": None, "warmup": 20, "model": "fast"},
    "timed": {"warmup": 20, "calendar": ["day"], "seed": 3},
    "keys": {"warmup": 20, "seed": 3},
}
CREATED = {"single": {"model": "fast", "warmup": 20}, "timed": OTHERS["timed"], "keys": OTHERS["keys"]}


def created(kind: str) -> dict[str, Any]:
    """Return the options of a stream that is what the challenger of this kind is."""
    own = {name: tuple(value) if isinstance(value, list) else value for name, value in CREATED[kind].items()}
    usual = {name: value for name, value in KINDS[kind].items() if name != "options"}
    return usual | own


def begin(stream: LiveStream, name: str = "other", **options: Any) -> dict[str, Any]:
    return challenging.begin(stream, {"name": name} | options).result(PATIENCE)


def promote(stream: LiveStream, name: str = "other", force: bool = False) -> dict[str, Any]:
    return challenging.promote(stream, name, force).result(PATIENCE)


def caught_up(stream: LiveStream) -> dict[str, Any]:
    """Return how the challengers stand once they have learnt all."""
    end = monotonic() + PATIENCE
    stream.settled()
    while stream.knowledge.challengers.has_work:
        assert monotonic() < end, "the challengers did not catch up"
        stream.shadowing.wake()
        sleep(0.01)
    return {each["name"]: each for each in challenging.listed(stream)["challengers"]}


def go_on(stream: LiveStream, options: dict[str, Any], of: range = range(20, 70)) -> None:
    """Step rows, singly and together; predict some, whose labels come late, in another order, or never."""
    middle = of.start + 20
    step(stream, rows(range(of.start, of.start + 15), options))
    for i in range(of.start + 15, middle):
        step(stream, rows(range(i, i + 1), options))
    for i in range(middle, middle + 6):
        predict(stream, rows(range(i, i + 1), options, targets=False))
    learn(stream, [{"id": f"r{i}", "y": float(Y[i])} for i in (middle + 3, middle)])
    learn(stream, [{"id": f"r{middle + 1}", "y": None}])
    step(stream, rows(range(middle + 6, of.stop), options))
    learn(stream, [{"id": f"r{middle + 2}", "y": float(Y[middle + 2])}])


def challenger_ahead(stream: LiveStream, options: dict[str, Any]) -> list[list[float]]:
    """Return what a challenger predicts of the next rows."""
    given = rows_with_inputs(stream.config, rows(range(80, 84), options, targets=False), with_target=False)
    return numbers(stream.knowledge.challengers.get("other").model.view().predict(given).columns)


def ahead(stream: LiveStream, options: dict[str, Any]) -> list[list[float]]:
    return predict(stream, rows(range(80, 84), options, targets=False), keep=False)


@pytest.mark.parametrize("kind", KINDS)
def test_a_challenger_predicts_what_a_stream_of_its_own_would(kind: str, tmp_path: Path):
    options, own = KINDS[kind], created(kind)
    with working(tmp_path / "power", **options) as stream, working(tmp_path / "own", **own) as alone:
        step(stream, rows(range(18), options))
        predict(stream, rows(range(18, 20), options, targets=False))  # they wait when it begins
        begin(stream, **OTHERS[kind])
        predict(alone, rows(range(18, 20), options, targets=False))
        for each in (stream, alone):
            learn(each, [{"id": "r18", "y": float(Y[18])}])
            go_on(each, options)
        found = caught_up(stream)["other"]
        assert found["failure"] is None and found["behind"] == 0
        assert found["scored_rows"] > 5
        same(challenger_ahead(stream, options), ahead(alone, options))
        scores = {name: value for name, value in alone.settled().model.scores().items() if name != "late_labels"}
        same({name: found["scores"][name] for name in scores}, scores)
        promote(stream)
        same(ahead(stream, options), ahead(alone, options))
        for each in (stream, alone):
            learn(each, [{"id": "r43", "y": float(Y[43])}, {"id": "r19", "y": float(Y[19])}])
            step(each, rows(range(70, 78), options))
        same(ahead(stream, options), ahead(alone, options))


def test_scores_are_paired_by_the_rows_that_both_have_predicted(tmp_path: Path):
    with working(tmp_path / "power") as stream, working(tmp_path / "own", warmup=20, seed=2) as alone:
        step(stream, rows(range(10), {}))
        begin(stream, warmup=20, seed=2)
        for each in (stream, alone):
            step(each, rows(range(10, 60), {}))
            for i in range(60, 70):
                step(each, rows(range(i, i + 1), {}))
        found = caught_up(stream)["other"]
        densities = [
            {
                row["id"]: row["log_density"]
                for row in each.settled().recent(1_000, -1, None)["rows"]
                if not row["warmup"]
            }
            for each in (stream, alone)
        ]
        both = [name for name in densities[0] if name in densities[1] and int(name[1:]) >= 10]
        assert found["scored_rows"] == len(both) == 70 - 30
        differences = np.clip([densities[1][name] - densities[0][name] for name in both], -3.0, 3.0)
        np.testing.assert_allclose(found["difference"], differences.mean(), rtol=1e-9, atol=1e-12)
        assert found["low"] < found["difference"] < found["high"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_leaves_the_same_challengers(kind: str, tmp_path: Path):
    options = KINDS[kind]
    with working(tmp_path / "power", **options) as stream:
        step(stream, rows(range(20), options))
        begin(stream, **OTHERS[kind])
        step(stream, rows(range(20, 26), options))
        stream.write_checkpoint().result(PATIENCE)
        go_on(stream, options, range(26, 72))
        stream.settled()
        crashed = copied(stream, tmp_path / "killed")
        expected = caught_up(stream), known(stream, options)
        promote(stream)
        promoted = known(stream, options)
        after = copied(stream, tmp_path / "after")
    for directory in (crashed, tmp_path / "power", after):
        with working(directory, **options) as again:
            if directory == crashed:
                same(caught_up(again), expected[0])
                same(known(again, options), expected[1])
                promote(again)
            same(known(again, options), promoted)
            assert not again.notices
            assert again.knowledge.challengers.promotion["promoted"] == "other"
            assert again.status()["warmup"] == 20
            learn(again, [{"id": "r50", "y": float(Y[50])}])
            step(again, rows(range(72, 76), options))


@pytest.mark.parametrize("kind", KINDS)
def test_a_promotion_keeps_the_rows_the_scores_and_the_waiting_labels(kind: str, tmp_path: Path):
    options = KINDS[kind]
    with working(tmp_path / "power", **options) as stream:
        step(stream, rows(range(10), options))
        begin(stream, **OTHERS[kind])
        step(stream, rows(range(10, 60), options))
        given = predict(stream, rows(range(60, 62), options, targets=False))
        before, scores = known(stream, options), stream.settled().scores()
        answer = promote(stream)
        assert answer == {"promoted": "other", "position": stream.last_position}
        assert promote(stream) == answer, "an answer that was lost may be asked for again"
        after = known(stream, options)
        assert after["status"] == before["status"]
        same(after["rows"], before["rows"])
        same(
            {name: stream.settled().scores()[name] for name in ("rows", "scored_rows", "pll")},
            {name: scores[name] for name in ("rows", "scored_rows", "pll")},
        )
        assert np.abs(np.array(after["ahead"]) - before["ahead"]).max() > 1e-6, "the same model answers"
        # The tests for changes would hold them against experts that did not predict them.
        assert kind == "keys" or not any(each.held.in_time.any() for each in stream.model.waiting.values())
        learned = learn(stream, [{"id": f"r{i}", "y": float(Y[i])} for i in (60, 61)])
        assert learned["learned"] == 2 and "late" not in learned
        said = stream.settled().recent(2, -1, None)["rows"]
        same([[row[name] for name in ("mean", "std", "q05", "q50", "q95")] for row in said], given)
        step(stream, rows(range(62, 66), options))
        predict(stream, rows(range(66, 68), options, targets=False))
        assert stream.status()["position"] == stream.knowledge.position


def test_a_stream_is_set_back_to_before_and_after_a_promotion(tmp_path: Path):
    options = KINDS["single"]
    with working(tmp_path / "power", **options) as stream:
        step(stream, rows(range(10), options))
        none = stream.last_position
        begin(stream, **OTHERS["single"])
        step(stream, rows(range(10, 60), options))
        standing, before, position = caught_up(stream), known(stream, options), stream.last_position
        promoted = promote(stream)["position"]
        after = known(stream, options)
        step(stream, rows(range(60, 64), options))
        stream.restore(promoted).result(PATIENCE)
        same(known(stream, options), after)
        stream.restore(position).result(PATIENCE)
        same(known(stream, options), before)
        same(caught_up(stream), standing)
        promote(stream)
        same(known(stream, options), after)
        stream.restore(none).result(PATIENCE)
        assert challenging.listed(stream)["challengers"] == []
        assert challenging.listed(stream)["promotion"] is None
        step(stream, rows(range(10, 14), options))
    with working(tmp_path / "power", **options) as stream:
        step(stream, rows(range(14, 18), options))


def test_predictions_made_before_a_promotion_and_written_after_it_are_asked_for_again(tmp_path: Path):
    with working(tmp_path / "power") as stream:
        begin(stream, warmup=20)
        step(stream, rows(range(40), {}))
        era = stream._era
        promote(stream)
        stream._era = era
        with pytest.raises(Problem, match="replaced while this was predicted"):
            predict(stream, rows(range(40, 41), {}, targets=False))


def test_a_challenger_that_fails_is_left_and_the_stream_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with working(tmp_path / "power") as stream:
        begin(stream, "bad", warmup=20)
        begin(stream, "good", warmup=20, seed=1)
        step(stream, rows(range(30), {}))
        caught_up(stream)

        def broken(*_: object) -> None:
            raise FloatingPointError("no such number")

        monkeypatch.setattr(stream.knowledge.challengers.get("bad").model, "stepped", broken)
        assert step(stream, rows(range(30, 60), {}))["learned"] == 30
        found = caught_up(stream)
        assert found["good"]["failure"] is None and found["bad"]["state"] == "failed"
        assert "no such number" in found["bad"]["failure"]
        with pytest.raises(Problem, match="has failed"):
            promote(stream, "bad", force=True)
        assert stream.failure is None
        stream.write_checkpoint().result(PATIENCE)
    with working(tmp_path / "power") as stream:
        assert caught_up(stream) == found
        challenging.end(stream, "bad").result(PATIENCE)
        begin(stream, "bad", warmup=20)


def test_one_that_is_too_far_behind_is_ended_by_an_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from streamgp.service import shadowing

    with working(tmp_path / "power") as stream:
        begin(stream, warmup=20)
        monkeypatch.setattr(shadowing, "MOST_BEHIND", 20)
        with stream.shadowing.resting():
            step(stream, rows(range(15), {}))
            assert caught_up_without_work(stream)["failure"] is None
            step(stream, rows(range(15, 30), {}))
            end = monotonic() + PATIENCE
            while caught_up_without_work(stream)["failure"] is None:
                assert monotonic() < end
                sleep(0.01)
        assert "too slow" in caught_up_without_work(stream)["failure"]
        crashed = copied(stream, tmp_path / "killed")
    with working(crashed) as again:
        assert "too slow" in caught_up(again)["other"]["failure"]


def caught_up_without_work(stream: LiveStream) -> dict[str, Any]:
    (found,) = challenging.listed(stream)["challengers"]
    return found


def test_a_stream_never_waits_for_a_challenger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with working(tmp_path / "power") as stream:
        begin(stream, warmup=20)
        usual = one.Challenger.work

        def slowly(self: Any) -> None:
            sleep(0.5)
            usual(self)

        monkeypatch.setattr(one.Challenger, "work", slowly)
        began = monotonic()
        for i in range(10):
            step(stream, rows(range(i, i + 1), {}))
            predict(stream, rows(range(80, 81), {}, targets=False), keep=False)
        assert monotonic() - began < 2.0, "answers waited for a challenger"
        assert stream.knowledge.challengers.behind > 0
        # What it has still to learn is in the checkpoint.
        stream.write_checkpoint().result(PATIENCE)
        crashed = copied(stream, tmp_path / "killed")
        monkeypatch.undo()
        expected = caught_up(stream)
    with working(crashed) as again:
        same(caught_up(again), expected)


def test_what_cannot_be_a_challenger_is_refused(tmp_path: Path):
    with working(tmp_path / "power", **KINDS["single"]) as stream:
        for given, words in (
            ({"name": "a b"}, "name: expected"),
            ({}, "name: expected"),
            ({"name": "a", "target": "b"}, "target: expected one of"),
            ({"name": "a", "bounds": [0, None]}, "bounds: expected one of"),
            ({"name": "a", "model": "none"}, "model"),
            ({"name": "a", "warmup": "many"}, "warmup: expected a whole number"),
            ({"name": "a", "calendar": ["day"]}, "calendar: expected none, unless"),
        ):
            with pytest.raises(Problem, match=words):
                challenging.begin(stream, given)
        position = stream.last_position
        for i in range(several.MOST):
            begin(stream, f"c{i}", warmup=20 + i)
        assert begin(stream, "c0", warmup=20)["name"] == "c0"  # the same one may be begun again
        with pytest.raises(Problem, match="that of another challenger"):
            begin(stream, "c0", warmup=50)
        with pytest.raises(Problem, match="at most 3"):
            begin(stream, "more")
        with pytest.raises(Problem, match="expected one of c0, c1, c2, got 'none'"):
            challenging.end(stream, "none")
        with pytest.raises(Problem, match="in its warm-up"):
            promote(stream, "c0")
        assert stream.last_position == position + several.MOST
        promote(stream, "c0", force=True)
        step(stream, rows(range(40), KINDS["single"]))
        assert set(caught_up(stream)) == {"c1", "c2"}


def test_those_that_stay_are_compared_with_the_one_that_was_promoted(tmp_path: Path):
    with working(tmp_path / "power") as stream:
        begin(stream, "first", warmup=20, seed=1)
        begin(stream, "same", warmup=20, seed=1)
        step(stream, rows(range(50), {}))
        assert caught_up(stream)["same"]["scored_rows"] == 20
        predict(stream, rows(range(70, 71), {}, targets=False))
        promote(stream, "first")
        assert caught_up(stream)["same"]["scored_rows"] == 0
        step(stream, rows(range(50, 70), {}))
        learn(stream, [{"id": "r70", "y": float(Y[70])}])  # the former model predicted it
        found = caught_up(stream)["same"]
        assert found["scored_rows"] == 20 and found["difference"] == 0.0 and found["verdict"] == "undecided"
