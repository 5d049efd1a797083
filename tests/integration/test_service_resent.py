"""A request that is sent again, as its answer got lost, is answered as it was: learnt, too late or skipped."""

from pathlib import Path
from typing import Any

import pytest

from live_streams import copied, data, inputs, learn, predict, started, step, working
from streamgp.service.payload import labels_by_id
from streamgp.service.problems import Problem
from streamgp.service.single_model import MAX_SINGLE_ROWS
from streamgp.stream.late_labels import LIMIT

pytestmark = pytest.mark.slow

X, Y = data(60)
KEYED: dict[str, Any] = {"key": "key", "model": "fleet", "features": ("a",), "max_pending": 2}


def keyed(names: list[str], **more: Any) -> list[dict[str, Any]]:
    return [{"id": name, "key": "k", "x": {"a": 0.5}} | more for name in names]


def without_position(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name != "position"}


def test_a_label_that_came_too_late_is_too_late_again(tmp_path: Path) -> None:
    """Also after a crash, after a stop, and after a return to a checkpoint from before and after it."""
    labels = [{"id": name, "y": 1.0} for name in "abc"]
    too_late = {"learned": 0, "repeated": 2, "late": ["a"]}
    with working(tmp_path / "power", **KEYED) as stream:
        for name in "abc":
            predict(stream, keyed([name]))
        early = stream.write_checkpoint().result(60)["position"]
        assert without_position(learn(stream, labels)) == {"learned": 2, "repeated": 0, "late": ["a"]}
        assert without_position(learn(stream, labels)) == too_late
        assert without_position(learn(stream, keyed(["a"], y=1.0))) == {"learned": 0, "repeated": 0, "late": ["a"]}
        again = step(stream, keyed(["a"], y=1.0))
        assert again["rows"] == [{"id": "a", "late": True}] and again["repeated"] == 0
        killed = copied(stream, tmp_path / "killed")
    with working(killed, **KEYED) as stream:
        assert without_position(learn(stream, labels)) == too_late
    with working(tmp_path / "power", **KEYED) as stream:
        assert without_position(learn(stream, labels)) == too_late
        after = stream.checkpoints.positions()[-1]
        learn(stream, keyed(["d"], y=2.0))
        stream.restore(after).result(60)
        assert without_position(learn(stream, labels)) == too_late
        stream.restore(early).result(60)  # b and c wait again; a, predicted before, waited no longer
        with pytest.raises(Problem, match="expected those of rows that were predicted, got 'd'"):
            learn(stream, [*labels, {"id": "d", "y": 2.0}])
        with pytest.raises(Problem, match="too long ago"):
            predict(stream, keyed(["a"]))
        assert without_position(learn(stream, labels)) == {"learned": 2, "repeated": 0, "late": ["a"]}
        assert without_position(learn(stream, labels)) == too_late
        killed = copied(stream, tmp_path / "killed-later")
    for directory in (killed, tmp_path / "power"):
        with working(directory, **KEYED) as stream:
            assert without_position(learn(stream, labels)) == too_late


def test_of_one_model_too_and_sent_again_before_the_first_is_answered(tmp_path: Path) -> None:
    names = [f"r{i}" for i in range(2 * LIMIT + 1)]
    with working(tmp_path / "power") as stream:
        step(stream, [{"x": inputs(X[i]), "y": float(Y[i])} for i in range(40)])
        predict(stream, [{"id": name, "x": {"a": 0.1, "b": 0.2}} for name in names])
        given = [{"id": "r0", "y": 1.0}, {"id": names[-1], "y": 1.0}]
        first = [stream.learn(None, labels_by_id(stream.config, given)) for _ in range(3)]
        answers = [without_position(each.result(60)) for each in first]
    assert answers[0] == {"learned": 1, "repeated": 0, "late": ["r0"]}
    assert answers[1] == answers[2] == {"learned": 0, "repeated": 1, "late": ["r0"]}


@pytest.mark.parametrize("rows", [1, MAX_SINGLE_ROWS + 4])
def test_rows_that_were_skipped_are_skipped_again(tmp_path: Path, rows: int) -> None:
    """Those of a keyed stream whose time is behind the last one of their key: learnt in no form."""
    options = KEYED | {"timed": True}
    late = [row | {"time": 5.0} for row in keyed([f"s{i}" for i in range(rows)], y=1.0)]
    stream = started(tmp_path / "power", **options)
    step(stream, keyed(["new"], time=10.0, y=1.0))
    predict(stream, keyed(["waits"], time=4.0))
    first = step(stream, late)
    assert (first["learned"], first["repeated"], first["skipped"]) == (0, 0, rows)
    label = learn(stream, [{"id": "waits", "y": 1.0}])
    assert (label["learned"], label["skipped"]) == (0, 1)
    killed = copied(stream, tmp_path / "killed")
    again = without_position(step(stream, late))
    assert again.pop("rows") == [{"id": row["id"], "skipped": True} for row in late]
    assert again == {"learned": 0, "repeated": 0, "skipped": rows}
    mixed = step(stream, [*late, *keyed(["newer"], time=11.0, y=1.0)])
    assert (mixed["learned"], mixed["repeated"], mixed["skipped"]) == (1, 0, rows)
    stream.stop()
    with working(killed, **options) as other:
        again = learn(other, [*late, {"id": "waits", "y": 1.0}])
        assert (again["learned"], again["repeated"], again["skipped"]) == (0, 0, rows + 1)
    with working(tmp_path / "power", **options) as other:
        again = learn(other, [*late, {"id": "waits", "y": 1.0}, *keyed(["new"], time=10.0, y=1.0)])
        assert (again["learned"], again["repeated"], again["skipped"]) == (0, 1, rows + 1)
