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
