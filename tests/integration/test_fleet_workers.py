"""Fleets in workers: the numbers of one process, in any number, killed or not, saved by one engine, read by any.

Ray is played by `fake_ray`, whose actors are here; `test_fleet_ray` has Ray itself.
"""

import copy
import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from fake_ray import FakeRay
from fleet_streams import VALUES, assert_same, fleet, frame, learnt, steps_ahead
from streamgp import StreamingGPFleet
from streamgp.app.cli import app
from streamgp.fleet import ray_keys
from streamgp.numerics import checkpoint
from streamgp.table import DataError

ROWS = frame(keys=9)
WARM = 200  # rows after which the fleet has been fitted
CALLS = [37] * 15


@pytest.fixture(autouse=True)
def ray(monkeypatch: pytest.MonkeyPatch):
    """Actors in this process, in the place of Ray's."""
    monkeypatch.setitem(sys.modules, "ray", FakeRay())
    return sys.modules["ray"]


@pytest.fixture(scope="module")
def whole():
    """What a fleet in this process predicts of all rows, and the fleet."""
    model = fleet()
    return learnt(model, ROWS, CALLS), model


@pytest.fixture(scope="module")
def halfway(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fleet in this process after half of the rows, on disk."""
    path = tmp_path_factory.mktemp("halfway")
    model = fleet()
    learnt(model, ROWS[: sum(CALLS[:8])], CALLS[:8])
    model.save(path)
    return path


def on_ray(**options) -> StreamingGPFleet:
    return fleet(engine="ray", **({"workers": 2} | options))


def same_scores(one: StreamingGPFleet, other: StreamingGPFleet) -> None:
    for each, its in zip(one.scores().get_columns(), other.scores().get_columns(), strict=True):
        if each.dtype.is_float():
            np.testing.assert_allclose(each.to_numpy(), its.to_numpy(), rtol=1e-9, err_msg=each.name)
        else:
            assert each.equals(its), each.name


def test_two_workers_are_one_process(whole, tmp_path: Path):
    model = on_ray()
    assert_same(learnt(model, ROWS, CALLS), whole[0])
    local = whole[1]
    priors = [each.learner.engine.model.priors for each in (model, local)]
    assert len(priors[0]) == len(priors[1]) > 1  # keys were born with pooled ones
    held = [keys for keys in model.learner.engine.keys._count.tolist() if keys]
    assert len(held) == 2 and sum(held) == len(model.keys_)
    assert model.keys_ == local.keys_
    same_scores(model, local)
    # Rows of some keys, one of them new, in any order; forecasts of all keys and of some.
    ahead = ROWS[-30:].drop("y").sample(fraction=1.0, shuffle=True, seed=0)
    ahead = ahead.with_columns(unique_id=pl.when(pl.int_range(30) == 4).then(pl.lit("new")).otherwise("unique_id"))
    assert_same(model.predict(ahead), local.predict(ahead))
    future = steps_ahead(local, 3, a=0.3, b=-1.0)
    for keys in (None, local.keys_[4:1:-1]):
        forecasts = [each.forecast(3, X_future=future, keys=keys) for each in (model, local)]
        assert_same(*forecasts)
        assert forecasts[0]["unique_id"].equals(forecasts[1]["unique_id"])
    # And their files are alike, whoever wrote them.
    for name, each in (("ray", model), ("local", local)):
        each.save(tmp_path / name)
    trees = [checkpoint.load(tmp_path / name)[0] for name in ("ray", "local")]
    assert trees[0]["settings"] == trees[1]["settings"]
    assert trees[0]["shards"].keys() == trees[1]["shards"].keys()
    for shard in trees[0]["shards"]:
        one, other = (
            checkpoint.load(tmp_path / name / tree["shards"][shard])[0]
            for name, tree in zip(("ray", "local"), trees, strict=True)
        )
        assert one["keys"] == other["keys"]
        np.testing.assert_allclose(one["states"].beliefs.mean, other["states"].beliefs.mean, rtol=1e-8, atol=1e-10)


def test_groups_in_workers_are_those_of_one_process():
    rows = ROWS.with_columns(kind=pl.col("unique_id").str.slice(4).cast(int) % 2)
    local, model = fleet(group_col="kind"), on_ray(group_col="kind")
    assert_same(learnt(model, rows, CALLS), learnt(local, rows, CALLS))
    same_scores(model, local)
    assert model.learner.engine.model.by_group == local.learner.engine.model.by_group != []
    ahead = rows[-4:].drop("y").with_columns(unique_id=pl.lit("new"), kind=pl.Series([0, 1, 7, 0]))
    assert_same(model.predict(ahead), local.predict(ahead))


def test_from_one_worker_to_three_to_two_to_none(whole, tmp_path: Path):
    found, at = [], 0
    model = on_ray(workers=1)
    for number, (workers, stop) in enumerate([(3, 60), (2, 250), (None, 400), (None, len(ROWS))]):
        found.append(learnt(model, ROWS[at:stop], [41] * 3))
        at = stop
        model.save(tmp_path / str(number))
        engine = "local" if workers is None else "ray"
        model = StreamingGPFleet.load(tmp_path / str(number), engine=engine, workers=workers)
        assert model.settings.workers == workers
    assert_same(pl.concat(found), whole[0])
    same_scores(model, whole[1])


@pytest.mark.parametrize("copies", [True, False])
def test_killed_workers_come_back(ray, whole, halfway: Path, monkeypatch: pytest.MonkeyPatch, copies: bool):
    if copies:
        monkeypatch.setattr(ray_keys, "COPY_ROWS", 1)
        monkeypatch.setattr(ray_keys, "MIN_COPY_ROWS", 1)
    model = StreamingGPFleet.load(halfway, engine="ray", workers=2)
    workers = model.learner.engine.keys._workers
    calls, came_back = CALLS[8:], []
    whole_send, whole_copy, come_back = (
        getattr(ray_keys._Worker, name) for name in ("send", "begin_copy", "_come_back")
    )
    monkeypatch.setattr(ray_keys._Worker, "_come_back", lambda self: came_back.append(1) or come_back(self))
    kill_at = {1: "before", 3: "during", 5: "copying"}
    found, at = [], sum(CALLS[:8])
    for number, size in enumerate(calls):
        with monkeypatch.context() as patch:
            if kill_at.get(number) == "before":
                ray.kill(workers[0]._actor)
            elif kill_at.get(number) == "during":

                def send(self, method, args):
                    sent = whole_send(self, method, args)
                    if not self._number and not came_back[1:]:
                        ray.kill(self._actor)
                    return sent

                patch.setattr(ray_keys._Worker, "send", send)
            elif kill_at.get(number) == "copying":

                def begin_copy(self):
                    begun = whole_copy(self)
                    ray.kill(self._actor)
                    return begun

                patch.setattr(ray_keys._Worker, "begin_copy", begin_copy)
            found.append(learnt(model, ROWS[at : at + size]))
            at += size
        assert all((worker._copy is not None) == copies for worker in workers)
    assert_same(pl.concat(found), whole[0][sum(CALLS[:8]) :])
    same_scores(model, whole[1])
    assert len(came_back) == (4 if copies else 2)
    # Nor does one that is killed while nobody learns cost a prediction.
    for worker in workers:
        ray.kill(worker._actor)
    assert_same(model.predict(ROWS[-5:]), whole[1].predict(ROWS[-5:]))


def test_a_worker_that_always_dies_is_given_up_and_the_fleet_loads_again(
    ray, whole, halfway: Path, monkeypatch: pytest.MonkeyPatch
):
    model = StreamingGPFleet.load(halfway, engine="ray", workers=1)
    at = sum(CALLS[:8])
    with monkeypatch.context() as patch:
        start = ray_keys._Worker._start

        def dead(self):
            ray.kill(actor := start(self))
            return actor

        patch.setattr(ray_keys._Worker, "_start", dead)
        ray.kill(model.learner.engine.keys._workers[0]._actor)
        with pytest.raises(ray_keys.WorkerError, match=r"worker 0 died 3 times in 'learn'.*last saved"):
            model.partial_fit(ROWS[at:])
    with pytest.raises(RuntimeError, match="stopped in the midst of learning; load it"):
        model.partial_fit(ROWS[at:])
    again = StreamingGPFleet.load(halfway, engine="ray", workers=1)
    assert_same(learnt(again, ROWS[at:]), whole[0][at:])


def test_bad_rows_reach_no_worker_and_a_fleet_is_not_copied(halfway: Path):
    model, local = StreamingGPFleet.load(halfway, engine="ray", workers=2), StreamingGPFleet.load(halfway)
    at = sum(CALLS[:8])
    bad = pl.concat([ROWS[at : at + 9], ROWS[at + 3 : at + 4]])
    calls = [len(worker._calls) for worker in model.learner.engine.keys._workers]
    for frame_, said in ((bad, "time of an earlier row"), (bad.drop("a"), "'a' missing")):
        with pytest.raises(DataError, match=said):
            model.partial_fit(frame_)
    assert [len(worker._calls) for worker in model.learner.engine.keys._workers] == calls
    assert_same(learnt(model, ROWS[at : at + 20]), learnt(local, ROWS[at : at + 20]))
    with pytest.raises(TypeError, match="save it, and load it"):
        copy.deepcopy(model)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    ROWS.write_csv("rows.csv")
    words = ["run", "rows.csv", "--target", "y", "--key", "unique_id", "--time", "ds", "--warmup", "110"]
    on = ["--engine", "ray", "--workers", "2"]
    # Begun on Ray and ended here is a run like any other.
    for more in (["--out", "local"], ["--out", "ray", "--max-rows", "300", *on], ["--out", "ray", "--resume"]):
        result = CliRunner().invoke(app, [*words, *more])
        assert result.exit_code == 0, result.output
    one, other = (pl.read_parquet(f"{name}/predictions.parquet") for name in ("ray", "local"))
    assert one["key"].equals(other["key"])
    for name in (*VALUES, "log_density"):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-9, atol=1e-10, err_msg=name)
    metrics = [json.loads(Path(name, "metrics.json").read_text()) for name in ("ray", "local")]
    assert metrics[0]["pll"] == pytest.approx(metrics[1]["pll"], rel=1e-9)


def test_no_ray_to_be_had_is_said_in_a_sentence(tmp_path: Path, ray, monkeypatch: pytest.MonkeyPatch):
    def unreachable(**_):
        raise ConnectionError("nobody there")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", unreachable, raising=False)
    model = on_ray()
    with pytest.raises(ray_keys.WorkerError, match=r"expected a cluster at RAY_ADDRESS.*got: nobody there"):
        model.partial_fit(ROWS[:20])
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    model.partial_fit(ROWS[:20])  # nothing had been learnt
    assert model.rows_ == 20
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    ROWS.write_csv(tmp_path / "rows.csv")
    words = ["run", str(tmp_path / "rows.csv"), "--target", "y", "--key", "unique_id", "--engine", "ray"]
    result = CliRunner().invoke(app, [*words, "--workers", "2"])
    assert result.exit_code == 1 and "got: nobody there; what was saved stands" in " ".join(result.output.split())


def test_what_does_not_go_together_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for options, said in (
        ({"engine": "ray"}, "workers: expected a whole number from 1 to 1024, got None"),
        ({"engine": "ray", "workers": 0}, "workers: expected a whole number from 1 to 1024, got 0"),
        ({"workers": 2}, "workers: expected none with engine='local', got 2; set engine='ray'"),
    ):
        with pytest.raises(ValueError, match=said):
            StreamingGPFleet(**options)
    ROWS.write_csv(tmp_path / "rows.csv")
    words = ["run", str(tmp_path / "rows.csv"), "--target", "y"]
    keyed = ["--key", "unique_id"]
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    with pytest.raises(ImportError, match=r'pip install "streamgp\[ray\]"'):
        StreamingGPFleet(engine="ray", workers=2)
    for more, said in (
        (["--workers", "2"], "--engine, --workers, --group and --max-active go with --key"),
        ([*keyed, "--engine", "ray"], "workers: expected a whole number"),
        ([*keyed, "--engine", "ray", "--workers", "2"], "pip install"),
    ):
        result = CliRunner().invoke(app, [*words, *more])
        assert result.exit_code != 0 and said in " ".join(result.output.split()), result.output
