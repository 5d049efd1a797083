"""`compare`: every kind of model by the same rules, on the same rows, with paired intervals."""

from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from river import linear_model
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDRegressor

from linear_user import ROWS, WARMUP, new, stream
from streamgp import StreamingGPClassifier, compare, evaluate
from streamgp.adapters.river import RiverRegressor
from streamgp.evaluation import metrics

mpl.use("Agg")
EVERY = 30
X, Y = stream()


class Last:
    """The last target: all that a model of one's own needs."""

    def __init__(self) -> None:
        self.seen: list[dict[str, float]] = []
        self.last: float | None = None

    def predict_one(self, x: dict[str, float]) -> float | None:
        self.seen.append(x)
        return self.last

    def learn_one(self, x: dict[str, float], y: float) -> None:
        self.last = y


def rivals() -> dict[str, Any]:
    return {
        "last": Last(),
        "bayes": linear_model.BayesianLinearRegression(),
        "adapter": RiverRegressor("linear", warmup=WARMUP),
        "sgd": SGDRegressor(random_state=0),
        "refitted": LinearRegression(),
    }


def run(models: dict[str, Any], X: Any = X, y: Any = Y, **options: Any) -> Any:
    return compare(models, X, y, **({"refit_every": EVERY, "progress": False} | options))


def test_our_own_has_the_scores_of_its_evaluation():
    found = run({"ours": new()}).to_frame().to_dicts()[0]
    want = evaluate(new(), X, Y, progress=False).metrics
    for name in ("nmse", "mae", "crps", "pll"):
        assert found[name] == pytest.approx(want[name], rel=1e-12), name
    assert found["coverage_90"] == pytest.approx(want["coverage"]["90"])
    assert found["unpredicted"] == 0
    assert found["seconds"] > 0.0


def test_words_are_columns_of_0_and_1_for_models_of_other_libraries():
    words = np.array(["low", "high"])[(np.arange(ROWS) % 3 == 0).astype(int)]
    frame, y = pd.DataFrame({"a": X[:, 0], "word": words}), Y + 5.0 * (words == "high")
    coded = np.column_stack([X[:, 0], words == "high", words == "low"])
    found = run({"ours": new(), "last": (last := Last()), "refitted": LinearRegression()}, frame, y).models
    assert_allclose(
        found["refitted"].mean[EVERY:],
        run({"refitted": LinearRegression()}, coded, y).models["refitted"].mean[EVERY:],
    )
    assert list(last.seen[0]) == ["a", "word=high", "word=low"]
    assert_allclose(found["ours"].mean, evaluate(new(), frame, y, progress=False).mean)


def test_each_kind_predicts_as_in_a_loop_by_hand():
    found = run(rivals()).models
    assert_array_equal(found["last"].mean, np.append(np.nan, Y[:-1]))
    sgd, bayes = SGDRegressor(random_state=0), linear_model.BayesianLinearRegression()
    stepped, dist = [np.nan], []
    for i in range(ROWS):
        row = {"x0": X[i, 0], "x1": X[i, 1]}
        if i:
            stepped.append(sgd.predict(X[i : i + 1])[0])
        sgd.partial_fit(X[i : i + 1], Y[i : i + 1])
        dist.append(bayes.predict_one(row, with_dist=True))
        bayes.learn_one(row, Y[i])
    assert_array_equal(found["sgd"].mean, stepped)
    refitted = np.full(ROWS, np.nan)
    for start in (30, 60):
        refitted[start : start + 30] = LinearRegression().fit(X[:start], Y[:start]).predict(X[start : start + 30])
    assert_array_equal(found["refitted"].mean, refitted)
    normal = stats.norm([d.mu for d in dist], [d.sigma for d in dist])
    assert_allclose(found["bayes"].mean, normal.mean())
    assert_allclose(found["bayes"].log_density, normal.logpdf(Y), rtol=1e-12)
    assert_allclose(found["bayes"].crps, metrics.crps_gaussian(normal.mean(), normal.std(), Y))
    low, high = normal.interval(0.9)
    assert_array_equal(found["bayes"].covered, (low <= Y) & (high >= Y))
    for name in ("last", "sgd", "refitted"):
        assert (found[name].log_density, found[name].crps, found[name].covered) == (None, None, None)


def test_an_adapter_of_ours_predicts_as_ours():
    found = run({"ours": new(), "adapter": rivals()["adapter"]}).models
    # Until the fit, columns that are kept free for further features have their part in how sure it is.
    assert_allclose(found["adapter"].mean[WARMUP:], found["ours"].mean[WARMUP:], rtol=1e-9)


@pytest.mark.parametrize("row", [35, 71])
def test_no_prediction_knows_its_own_target_or_a_later_one(row: int):
    other = np.where(np.arange(ROWS) >= row, Y + 3.0, Y)
    one, two = (run({"ours": new()} | rivals(), y=y).models for y in (Y, other))
    for name in one:
        assert_array_equal(one[name].mean[: row + 1], two[name].mean[: row + 1], err_msg=name)
        if name != "refitted":
            assert one[name].mean[row + 1] != two[name].mean[row + 1]


def test_all_are_scored_on_the_same_rows():
    y = np.where(np.arange(ROWS) == 50, np.nan, Y)
    gaps = np.where((np.arange(ROWS) == 60)[:, None] & (np.arange(2) == 1), np.nan, X)
    found = run({"skipping": new(missing="skip"), "last": Last(), "trees": HistGradientBoostingRegressor()}, gaps, y)
    # The warm-up is of 24 rows; the trees say nothing before row 30.
    assert_array_equal(np.flatnonzero(found.scored), np.setdiff1d(np.arange(30, ROWS), [50, 60]))
    assert found.to_frame()["unpredicted"].to_list() == [1, 0, 0, 0, 0]
    assert len(run({"last": Last(), "ours": new()}, warmup=40).losses("last")["mae"]) == ROWS - 40
    assert run({"last": Last(), "ours": new()}, warmup=5).scored.argmax() == WARMUP


def test_a_model_at_work_goes_on_and_is_scored_at_once():
    model = new().partial_fit(X[:40], Y[:40])
    found = run({"ours": model}, X[40:], Y[40:])
    assert not found.scored[0] and found.scored[1:].all()  # the first row has no last value
    assert model.rows_ == ROWS


def test_river_gets_names_and_what_is_there():
    model = Last()
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame.loc[3, "a"] = np.nan
    frame.loc[4, "b"] = np.inf
    found = run({"last": model}, frame, pd.Series(Y))
    assert [set(row) for row in model.seen[2:6]] == [{"a", "b"}, {"b"}, {"a"}, {"a", "b"}]
    assert isinstance(found.to_frame(), pd.DataFrame)


def test_a_missing_target_is_not_learnt():
    y = np.where(np.arange(ROWS) == 50, np.nan, Y)
    found = run(rivals(), y=y).models
    without = run(rivals(), np.delete(X, 50, 0), np.delete(y, 50)).models
    for name in ("last", "bayes", "sgd"):
        assert_array_equal(np.delete(found[name].mean, 50), without[name].mean, err_msg=name)
    want = LinearRegression().fit(np.delete(X, 50, 0)[:59], np.delete(y, 50)[:59]).predict(X[60:])
    assert_allclose(found["refitted"].mean[60:], want)


def test_differences_are_to_the_first_with_paired_intervals():
    found = run({"ours": new(), "last": Last(), "bayes": rivals()["bayes"]})
    table = found.differences(0.8)
    pairs = list(zip(table["model"], table["score"], strict=True))
    naive = [(name, score) for name in ("last value", "mean so far") for score in ("nmse", "mae")]
    bayes = [("bayes", each) for each in ("nmse", "mae", "crps", "pll")]
    assert pairs == [("last", "nmse"), ("last", "mae"), *bayes, *naive]
    scored = slice(WARMUP, None)
    errors = [np.abs(Y - found.models[name].mean)[scored] for name in ("last", "ours")]
    want = metrics.paired_interval(*errors, 0.8)
    row = table.row(1, named=True)
    assert_allclose([row["difference"], row["low"], row["high"]], want)
    squares = metrics.paired_interval(*(e**2 / np.var(Y[scored]) for e in errors), 0.8)
    assert_allclose(table.row(0)[2:], squares)
    scores = {row["model"]: row for row in found.to_frame().to_dicts()}
    for model, score, difference, low, high in table.rows():
        assert difference == pytest.approx(scores[model][score] - scores["ours"][score])
        assert low < difference < high


def test_what_one_would_use_instead_stands_beside_the_models():
    y = np.where(np.arange(ROWS) == 50, np.nan, Y)
    found = run({"ours": new(lags=(1, 6)), "last": Last()}, y=y)
    assert list(found.baselines) == ["last value", "mean so far", "value of 6 rows before"]
    assert found.to_frame()["model"].to_list() == ["ours", "last", *found.baselines]
    assert_array_equal(found.baselines["last value"].mean[1:], found.models["last"].mean[1:])
    mean = [np.nanmean(y[:i]) for i in range(1, ROWS)]
    assert_allclose(found.baselines["mean so far"].mean[1:], mean)
    season = found.baselines["value of 6 rows before"].mean
    assert_array_equal(season[6:56], y[:50])
    assert season[56] == y[44]  # that of row 50 is missing
    assert_array_equal(season[1:6], found.models["last"].mean[1:6])


def test_it_can_be_looked_at():
    found = run({"<ours>": new(), "last": Last(), "refitted": LinearRegression()})
    page = found._repr_html_()
    assert page.count("<table>") == 2
    assert "&lt;ours&gt;" in page
    assert "<ours>" not in page
    assert repr(found) == "Comparison of <ours>, last, refitted on 60 rows"
    axes = found.plot()
    last = axes.get_lines()[1]
    assert_array_equal(last.get_xdata(), np.arange(30, ROWS))
    total = np.sum(found.losses("last")["nmse"]) - np.sum(found.losses("<ours>")["nmse"])
    assert np.asarray(last.get_ydata())[-1] == pytest.approx(total)
    assert found.plot(axes) is axes
    plt.close("all")


def test_before_the_end_of_a_warm_up_there_is_nothing_to_score():
    found = run({"ours": new(), "refitted": LinearRegression()}, refit_every=200)
    assert not found.scored.any()
    table = found.to_frame()
    assert table["nmse"].is_null().all()
    assert found.differences()["difference"].is_null().all()


class Rough(RegressorMixin, BaseEstimator):
    """Least squares that writes into all arrays that it is given."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Rough":
        self.line_ = np.linalg.lstsq(X, y, rcond=None)[0]
        X *= 0.0
        y *= 0.0
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        values = X @ self.line_
        X *= 0.0
        return values


class RoughSteps(Rough):
    """The same, a row at a time."""

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> "RoughSteps":
        self.fit(X, y)
        return self


class OnlySteps(RegressorMixin, BaseEstimator):
    """One without `fit`."""

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> "OnlySteps":
        self.last_ = y[-1]
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), self.last_)


class Short(LinearRegression):
    """One that says too little."""

    def predict(self, X: np.ndarray) -> np.ndarray:
        return super().predict(X)[:1]


@pytest.mark.parametrize("rough", [Rough, RoughSteps])
def test_a_model_that_writes_into_its_rows_spoils_those_of_no_other(rough: type[Rough]):
    alone = run({"refitted": LinearRegression()}).models["refitted"].mean
    found = run({"rough": rough(), "refitted": LinearRegression()})
    assert_array_equal(found.models["refitted"].mean, alone)
    assert_array_equal(found.y, Y)


def test_one_that_learns_on_needs_no_fit():
    assert_array_equal(run({"steps": OnlySteps()}).models["steps"].mean[1:], Y[:-1])


def test_a_prediction_of_other_rows_is_refused():
    with pytest.raises(ValueError, match=r"a number for each of 30 rows from the predict of Short, got .* \(1,\)"):
        run({"short": Short()})


@pytest.mark.parametrize("model", [Last(), new()], ids=["river", "ours"])
def test_one_model_under_two_names_is_refused(model: Any):
    with pytest.raises(ValueError, match="a model of its own for every name, got one as 'one' and 'other'"):
        run({"one": model, "other": model})


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"models": {}}, "models: expected at least one"),
        ({"models": {"labels": StreamingGPClassifier()}}, r"numbers, got StreamingGPClassifier as 'labels'"),
        ({"models": {"labels": LogisticRegression()}}, r"got LogisticRegression as 'labels'"),
        ({"models": {"far": new(horizon=2)}}, r"next row, got 'far' with horizon=2"),
        ({"models": {"mean": 3.0}}, r"predict_one and learn_one, got float as 'mean'"),
        ({"y": Y[:-1]}, "inconsistent numbers of samples"),
        ({"y": np.stack([Y, Y], 1)}, r"y: expected one target a row, shape \(n,\)"),
        ({"X": np.where(X > 2.0, np.nan, X)}, r"X: expected numbers in all cells, as 'sgd' takes no NaN"),
        ({"refit_every": 0}, r"refit_every: expected a whole number >= 1, got 0"),
        ({"warmup": -1}, r"warmup: expected a whole number >= 0, got -1"),
    ],
)
def test_what_cannot_be_compared_teaches_nothing(more: dict[str, Any], message: str):
    models = {"last": Last(), "sgd": clone(SGDRegressor())}
    given = {"X": X, "y": Y} | more
    with pytest.raises(ValueError, match=message):
        run(models | given.pop("models", {}) if more.get("models") != {} else given.pop("models"), **given)
    assert models["last"].last is None
    assert not hasattr(models["sgd"], "coef_")


def test_rows_that_ours_refuses_teach_nobody():
    models = {"last": Last(), "ours": new(missing="raise")}
    with pytest.raises(ValueError, match="X: expected finite numbers"):
        run(models, np.where(X > 2.0, np.nan, X))
    assert models["last"].last is None
