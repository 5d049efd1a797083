"""The adapter for statsforecast: its contract, and the same numbers as the estimator's own."""

import pickle

import numpy as np
import pytest

from streamgp import StreamingGPRegressor, evaluate

pytest.importorskip("statsforecast", reason="run by `make forecasters`, which sets up an environment with it")
import pandas as pd
from statsforecast import StatsForecast
from statsforecast.models import SeasonalNaive
from statsforecast.utils import AirPassengersDF, ConformalIntervals

from streamgp.adapters.statsforecast import StatsForecastModel

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")]
LAGS = (1, 12)
Y = AirPassengersDF["y"].to_numpy()
X = np.random.default_rng(0).normal(size=(len(Y), 2))
BANDS = ("lo-95", "lo-80", "hi-80", "hi-95")


def model(**more) -> StatsForecastModel:
    return StatsForecastModel("linear", lags=LAGS, **more)


def estimator(rows: int, inputs: bool = False) -> StreamingGPRegressor:
    return StreamingGPRegressor("linear", lags=LAGS).fit(X[:rows] if inputs else np.empty((rows, 0)), Y[:rows])


def assert_same(found: dict[str, np.ndarray], expected, ends: bool = True) -> None:
    assert list(found) == ["mean", *(BANDS if ends else ())]
    for name, values in found.items():
        own = name if name == "mean" else f"mean-{name}"
        np.testing.assert_allclose(values, expected[own].to_numpy(), rtol=1e-12, atol=1e-12, err_msg=name)


def test_forecasts_are_those_of_the_estimator():
    own = estimator(120).forecast(12)
    fitted = model().fit(Y[:120])
    assert_same(fitted.predict(12, level=[95, 80]), own)
    assert_same(fitted.predict(12), own, ends=False)
    assert_same(model().forecast(Y[:120], 12, level=[80, 95]), own)


def test_an_update_learns_the_new_rows_and_no_others(monkeypatch: pytest.MonkeyPatch):
    own = estimator(100)
    fitted = model().fit(Y[:100])
    learnt = []
    partial_fit = StreamingGPRegressor.partial_fit

    def told(self, X, y, times=None):
        learnt.append(len(y))
        return partial_fit(self, X, y, times)

    monkeypatch.setattr(StreamingGPRegressor, "partial_fit", told)
    monkeypatch.setattr(StreamingGPRegressor, "fit", lambda *_: pytest.fail("an update fits nothing"))
    fitted.update(Y[100:104]).update(Y[104:130])
    assert learnt == [4, 26]
    monkeypatch.undo()
    assert_same(fitted.predict(6, level=[80, 95]), own.partial_fit(np.empty((30, 0)), Y[100:130]).forecast(6))
    assert fitted.estimator_.rows_ == 130


def test_inputs_are_those_of_the_estimator():
    own = estimator(120, inputs=True).forecast(6, X[120:126])
    assert_same(model().fit(Y[:120], X[:120]).predict(6, X[120:126], level=[80, 95]), own)
    ahead = model().fit(Y[:100], X[:100])
    own = estimator(100, inputs=True).partial_fit(X[100:120], Y[100:120]).forecast(6, X[120:126])
    assert_same(ahead.forward(Y[:120], 6, X[:120], X[120:126], level=[80, 95]), own)
    assert_same(ahead.update(Y[100:120], X[100:120]).predict(6, X[120:126], level=[80, 95]), own)


def test_windows_go_on_from_each_other_and_leave_the_model_as_it_was(monkeypatch: pytest.MonkeyPatch):
    fitted = model().fit(Y[:100])
    before = fitted.predict(3)
    learnt = []
    partial_fit = StreamingGPRegressor.partial_fit

    def told(self, X, y, times=None):
        learnt.append(len(y))
        return partial_fit(self, X, y, times)

    monkeypatch.setattr(StreamingGPRegressor, "partial_fit", told)
    for end in (100, 112, 124):
        found = fitted.forward(Y[:end], 3, level=[80, 95])
    fitted.forward(Y[40:130], 3)  # a window of the last rows
    assert learnt == [12, 12, 6]
    monkeypatch.undo()
    assert_same(found, estimator(100).partial_fit(np.empty((24, 0)), Y[100:124]).forecast(3))
    np.testing.assert_array_equal(fitted.predict(3)["mean"], before["mean"])
    fitted.forward(Y[:100], 3)
    fitted.forward(1e3 + Y[:20], 3)  # of another series all rows are new
    assert fitted._ahead.estimator.rows_ == 120


def test_fitted_values_are_those_of_test_then_train():
    own = evaluate(StreamingGPRegressor("linear", lags=LAGS), np.empty((len(Y), 0)), Y, progress=False)
    found = model().fit(Y).predict_in_sample(level=[80])
    np.testing.assert_allclose(found["fitted"][1:], own.mean[1:], rtol=1e-12)
    assert np.isnan(found["fitted"][0])
    np.testing.assert_allclose((found["fitted-hi-80"] - found["fitted"])[1:], 1.2815515655446004 * own.std[1:])


def test_it_goes_into_statsforecast():
    engine = StatsForecast(models=[model(), SeasonalNaive(12)], freq="MS")
    engine.fit(AirPassengersDF)
    found = engine.predict(h=6, level=[80, 95])
    columns = ["StreamingGP", *(f"StreamingGP-{end}" for end in BANDS)]
    assert found.columns[2:7].tolist() == columns
    own = estimator(len(Y)).forecast(6)
    np.testing.assert_allclose(found["StreamingGP-hi-80"], own["mean-hi-80"].to_numpy(), rtol=1e-12)
    ahead = engine.forecast(df=AirPassengersDF, h=6, level=[80, 95], fitted=True)
    pd.testing.assert_frame_equal(found, ahead)
    fitted = engine.forecast_fitted_values()
    assert (fitted["StreamingGP-lo-95"] < fitted["StreamingGP-lo-80"])[1:].all()
    asked = {"df": AirPassengersDF, "h": 6, "n_windows": 3, "step_size": 6, "level": [80]}
    once, anew = (engine.cross_validation(**asked, refit=refit) for refit in (False, True))
    pd.testing.assert_frame_equal(once, anew, rtol=1e-9)  # the warm-up is the same 50 rows
    intervals = ConformalIntervals(h=6, n_windows=2)
    conformal = engine.forecast(df=AirPassengersDF, h=6, level=[80, 95], prediction_intervals=intervals)
    np.testing.assert_array_equal(conformal["StreamingGP"], ahead["StreamingGP"])
    middle = (conformal["StreamingGP-lo-80"] + conformal["StreamingGP-hi-80"]) / 2  # conformal bands are symmetric
    np.testing.assert_allclose(middle, conformal["StreamingGP"])


def test_inputs_come_from_the_frame_of_statsforecast():
    frame = AirPassengersDF.assign(a=X[:, 0], b=X[:, 1])
    engine = StatsForecast(models=[model()], freq="MS")
    found = engine.cross_validation(df=frame, h=12, n_windows=1, level=[90])
    own = estimator(132, inputs=True).forecast(12, X[132:], level=90)
    np.testing.assert_allclose(found["StreamingGP"], own["mean"].to_numpy(), rtol=1e-12)
    np.testing.assert_allclose(found["StreamingGP-lo-90"], own["mean-lo-90"].to_numpy(), rtol=1e-12)


def test_it_goes_to_other_processes():
    fitted = model().fit(Y[:120])
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(3)["mean"], fitted.predict(3)["mean"])
