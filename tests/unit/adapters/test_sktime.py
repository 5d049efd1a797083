"""The adapter for sktime: sktime's own checks, and the same numbers as the estimator's own."""

import subprocess
import sys

import numpy as np
import pytest

from streamgp import StreamingGPRegressor

pytest.importorskip("sktime", reason="run by `make forecasters`, which sets up an environment with it")
import pandas as pd
from sktime.datasets import load_airline
from sktime.forecasting.model_evaluation import evaluate
from sktime.split import ExpandingWindowSplitter

from streamgp.adapters.sktime import SktimeForecaster

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")]
LAGS = (1, 12)
MONTHS = load_airline()
RNG = np.random.default_rng(0)
HOURS = pd.Series(
    10 + np.sin(2 * np.pi * np.arange(400) / 24) + 0.1 * RNG.normal(size=400),
    index=pd.date_range("2024-01-01", periods=400, freq="h"),
    name="load",
)
X = pd.DataFrame({"a": RNG.normal(size=400), "b": RNG.normal(size=400)}, index=HOURS.index)
FH = [1, 2, 5]


def forecaster(**more) -> SktimeForecaster:
    return SktimeForecaster("linear", lags=LAGS, **more)


def estimator(y: pd.Series, X: pd.DataFrame | None = None, dated: bool = False) -> StreamingGPRegressor:
    return StreamingGPRegressor("linear", lags=LAGS).fit(*rows(y, X, dated))


def rows(y: pd.Series, X: pd.DataFrame | None = None, dated: bool = False) -> tuple:
    return np.empty((len(y), 0)) if X is None else X, y.to_numpy(), y.index.to_numpy() if dated else None


def assert_same(found: SktimeForecaster, own, X: pd.DataFrame | None = None) -> None:
    """Compare every kind of forecast with a frame of the estimator's own, of five steps."""
    at = np.array(FH) - 1
    exact = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(found.predict(FH, X), own["mean"].to_numpy()[at], **exact)
    np.testing.assert_allclose(found.predict_var(FH, X).iloc[:, 0], own["std"].to_numpy()[at] ** 2, **exact)
    bands = found.predict_interval(FH, X, coverage=[0.8, 0.95])
    for share in (80, 95):
        for end, name in (("lower", "lo"), ("upper", "hi")):
            expected = own[f"mean-{name}-{share}"].to_numpy()[at]
            np.testing.assert_allclose(
                bands.xs((share / 100, end), axis=1, level=(1, 2)).iloc[:, 0], expected, **exact
            )
    quantiles = found.predict_quantiles(FH, X, alpha=[0.05, 0.5])
    np.testing.assert_allclose(quantiles.iloc[:, 0], own["q05"].to_numpy()[at], **exact)
    np.testing.assert_allclose(quantiles.iloc[:, 1], own["q50"].to_numpy()[at], **exact)


CHECKS = """
from sktime.utils.estimator_checks import check_estimator
from streamgp.adapters.sktime import SktimeForecaster
results = check_estimator(SktimeForecaster, verbose=False)
print(len(results), *(f"{name}: {why!r}" for name, why in results.items() if why != "PASSED"), sep="\\n")
"""


@pytest.mark.process
def test_checks_of_sktime():
    """In a process of its own, without the checks of types and shapes, which would take ten times as long."""
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHECKS], capture_output=True, text=True, check=True
    )
    count, *failed = result.stdout.split("\n")[:-1]
    assert int(count) > 500 and not failed


def test_forecasts_are_those_of_the_estimator():
    found = forecaster().fit(MONTHS[:120])
    assert_same(found, estimator(MONTHS[:120]).forecast(5))
    assert found.predict(FH).index.equals(MONTHS.index[[120, 121, 124]])


def test_an_update_learns_the_new_rows_and_no_others(monkeypatch: pytest.MonkeyPatch):
    own = estimator(MONTHS[:100])
    found = forecaster().fit(MONTHS[:100])
    learnt = []
    partial_fit = StreamingGPRegressor.partial_fit

    def told(self, X, y, times=None):
        learnt.append(len(y))
        return partial_fit(self, X, y, times)

    monkeypatch.setattr(StreamingGPRegressor, "partial_fit", told)
    monkeypatch.setattr(StreamingGPRegressor, "fit", lambda *_: pytest.fail("an update fits nothing"))
    found.update(MONTHS[100:104]).update(MONTHS[100:110], update_params=False).update(MONTHS[110:130])
    assert learnt == [4, 6, 20]
    monkeypatch.undo()
    assert_same(found, own.partial_fit(*rows(MONTHS[100:130])).forecast(5))
    assert found.estimator_.rows_ == 130


@pytest.mark.parametrize("period", [False, True])
def test_inputs_and_dates_of_days_and_hours_count(period: bool):
    own = estimator(HOURS[:200], X[:200], dated=True).partial_fit(*rows(HOURS[200:300], X[200:300], dated=True))
    ahead = own.forecast(5, X[300:305], times=HOURS.index[300:305].to_numpy())
    y, inputs = (HOURS.to_period("h"), X.to_period("h")) if period else (HOURS, X)
    found = forecaster().fit(y[:200], inputs[:200]).update(y[200:300], inputs[200:300])
    assert_same(found, ahead, inputs[300:305])
    assert found.estimator_._learner.timed and found.predict(FH, inputs[300:305]).name == "load"
    some = found.predict(FH, inputs.iloc[[300, 301, 304]])  # the inputs of the steps asked for alone
    assert np.isfinite(some).all()


def test_the_covariance_has_the_variances():
    found = forecaster().fit(MONTHS[:120])
    cov = found.predict_var(FH, cov=True)
    np.testing.assert_allclose(np.diag(cov), found.predict_var(FH).iloc[:, 0], rtol=0.02)
    assert (np.linalg.eigvalsh(cov) > 0).all()


def test_windows_that_are_updated_are_those_that_are_fitted_anew():
    cv = ExpandingWindowSplitter(fh=[1, 2, 3], initial_window=108, step_length=12)
    once, anew = (evaluate(forecaster(), cv, MONTHS, strategy=how, return_data=True) for how in ("update", "refit"))
    assert len(once) == 3
    for first, second in zip(once["y_pred"], anew["y_pred"], strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-9)  # the warm-up is the same 50 rows
