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
    naive = {"persistence": {"rmse": 0.3}, "running_mean": {"rmse": 0.05}}
    metrics |= {"naive": {"persistence": {"rmse": 2.0}, "running_mean": {"rmse": 0.9}}}
    won, lost = wording.baselines({**metrics, "unflagged": {**others, "naive": naive}})
    assert won["text"].startswith("3.0 times smaller errors")
    assert "(RMSE 0.05000, the model's 0.1000, without the flagged rows)" in lost["text"]
    assert (won["beaten"], lost["beaten"]) == (True, False)
    for same in (None, {**others, "nmse": 1.25}, {**others, "nmse": None}):
        assert "Without" not in wording.headline({**metrics, "unflagged": same})


def test_a_near_tie_is_no_victory() -> None:
    def verdict(theirs: float) -> str:
        naive = {"persistence": {"rmse": theirs}, "running_mean": {"rmse": None}}
        (only,) = wording.baselines({"rmse": 1.0, "nmse": 0.5, "naive": naive})
        return only["text"] if not only["beaten"] else "won"

    assert "did better" in verdict(0.999)
    assert "about as well" in verdict(1.01)
    assert verdict(1.5) == "won"


def test_advice_against_persistence_knows_of_lags() -> None:
    metrics = {"rmse": 1.0, "nmse": 0.5, "naive": {"persistence": {"rmse": 0.5}}}
    assert "--lags 1" in wording.baselines(metrics)[0]["text"]
    assert "further lags" in wording.baselines({**metrics, "lags": [1]})[0]["text"]


def test_forecasts_are_called_so() -> None:
    metrics = {"scored_rows": 10, "rmse": 1.0, "nmse": 0.5, "coverage": {"95": 0.9}, "horizon": 24}
    metrics["naive"] = {"persistence": {"rmse": 0.5}}
    assert "each forecast 24 rows ahead" in wording.headline(metrics)
    assert "repeating the value of 24 rows before" in wording.baselines(metrics)[0]["text"]
    assert "repeating the last value" in wording.baselines({**metrics, "horizon": 1})[0]["text"]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.16123, "0.1612"),
        (12345.6, "12,346"),
        (-2.5, "−2.500"),
        (0, "0"),
        (None, "–"),
        (2.5e-5, "2.5e−05"),
        (1e9, "1e+09"),
    ],
)
def test_numbers_keep_four_digits(number: float | int | None, text: str) -> None:
    assert wording.number(number) == text
