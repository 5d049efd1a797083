"""Fleets on Ray itself: two workers, more, fewer, killed ones; `test_fleet_workers` has the cases, without Ray.

To start Ray and its workers takes most of the time.
"""

from pathlib import Path

import polars as pl
import pytest

from fleet_streams import assert_same, fleet, frame, learnt, steps_ahead
from streamgp import StreamingGPFleet

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'streamgp[ray]'")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.process,
    # JAX warns of it in every process that has used it; Ray's forks only start other programs.
    pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning"),
]

ROWS = frame(keys=9)
CALLS = [37] * 15


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """A cluster of this module's own, on this machine."""
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=False)
    yield
    ray.shutdown()


def test_workers_are_one_process_and_killed_ones_come_back(tmp_path: Path):
    local = fleet()
    expected = learnt(local, ROWS, CALLS)
    model = fleet(engine="ray", workers=1)
    found = [learnt(model, ROWS[:200], CALLS)]
    # It dies with a call on its way.
    worker = model.learner.engine.keys._workers[0]
    send = worker.send

    def killed(method: str, args: tuple) -> object:
        worker.send = send
        sent = send(method, args)
        ray.kill(worker._actor)
        return sent

    worker.send = killed
    found.append(learnt(model, ROWS[200:280], CALLS))
    model.save(tmp_path / "one")
    model = StreamingGPFleet.load(tmp_path / "one", engine="ray", workers=2)
    found.append(learnt(model, ROWS[280:400], CALLS))
    ahead = ROWS[400:430].drop("y")
    predicted = model.predict(ahead)
    # One of two dies while nobody asks.
    ray.kill(model.learner.engine.keys._workers[1]._actor)
    assert_same(model.predict(ahead), predicted)
    found.append(learnt(model, ROWS[400:], CALLS))
    assert_same(pl.concat(found), expected)
    future = steps_ahead(local, 3, a=0.3, b=-1.0)
    assert_same(model.forecast(3, X_future=future), local.forecast(3, X_future=future))
    assert len(model.learner.engine.model.priors) == len(local.learner.engine.model.priors) > 1
    model.save(tmp_path / "two")
    loaded = StreamingGPFleet.load(tmp_path / "two")
    assert_same(loaded.forecast(3, X_future=future), local.forecast(3, X_future=future))
