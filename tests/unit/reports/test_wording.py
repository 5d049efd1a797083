import pytest

from streamgp.reports import wording


@pytest.mark.parametrize(
    ("nmse", "text"),
    [
        (0.16, "84%"),
        (0.0123, "99%"),
        (0.0088, "99.1%"),
        (0.0003, "99.97%"),
        (0.995, "less than 1%"),
        (0.0, "100%"),
    ],
)
def test_explained_variance_is_never_rounded_up_to_all_of_it(nmse: float, text: str) -> None:
    metrics = {"scored_rows": 10, "rmse": 1.0, "nmse": nmse, "coverage": {"95": 0.951}}
    assert f"explained {text} of the variance; its 95% bands contained 95.1% of the targets." in wording.headline(
        metrics
    )


def test_a_few_absurd_targets_do_not_hide_what_was_explained() -> None:
    metrics = {"scored_rows": 1000, "rmse": 1.0, "nmse": 1.3, "coverage": {"95": 0.95}}
    others = {"rows": 997, "nmse": 0.05, "rmse": 0.1, "mae": 0.1}
    said = wording.headline({**metrics, "unflagged": others})
    assert said.endswith("Without the 3 rows that it flagged as outliers it explained 95%.")
    assert "explained none of the variance" in said
    for same in (None, {**others, "nmse": 1.25}, {**others, "nmse": None}):
        assert "Without" not in wording.headline({**metrics, "unflagged": same})


def test_forecasts_are_called_so() -> None:
    metrics = {"scored_rows": 10, "rmse": 1.0, "nmse": 0.5, "coverage": {"95": 0.9}, "horizon": 24}
    assert "each forecast 24 rows ahead" in wording.headline(metrics)
    assert wording.last_value(metrics) == "the value of 24 rows before"
    assert wording.last_value({**metrics, "horizon": 1}) == "the last value"
    late = {"late_labels": {"delay": 5}}
    assert wording.last_value(late, "label") == "the label of 6 rows before"  # the last that is known
    assert wording.last_value({"late_labels": {"delay": "known_at"}}) == "the last value"


def test_of_many_alarms_the_latest_are_listed_and_of_keys_the_first():
    found = [
        {"row": 1_000 + i, "time": 1.7e9 if i else None, "key": f"k{i // 2}", "kind": "level", "sentence": f"s{i}"}
        for i in range(12)
    ]
    assert wording.alarm_lines(found[:2]) == [
        "2 alarms:",
        "  row 1,000, level: s0",
        "  row 1,001 (2023-11-14 22:13), level: s1",
    ]
    head, *lines = wording.alarm_lines(found)
    assert head == "12 alarms, the latest 10:"
    assert [line[-2:] for line in (lines[0], lines[-1])] == ["s2", "11"]
    head, *lines = wording.alarm_lines(found, of_keys=True)
    assert head == "12 alarms of 6 keys, the first 10:"
    assert (lines[0], lines[-1], len(lines)) == ("  k0, level: s0", "  k4, level: s9", 10)
    assert wording.alarm_lines([]) == ["no alarm: the stream did not change"]
    assert wording.alarm_lines([], of_keys=True) == ["no alarm: no key has changed"]
    assert wording.alarm_lines(None) == []
