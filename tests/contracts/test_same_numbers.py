"""What is the same in every process: BLAS' threads, whatever other threads do, and results."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from streamgp import StreamingGPRegressor
from streamgp.bases import Nystrom
from streamgp.bases.centres import k_means
from streamgp.filters.engine import rowfilter
from streamgp.models.registry import make_spec
from streamgp.numerics import keys
from streamgp.numerics.threads import one_blas_thread
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings

pytestmark = pytest.mark.process


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_the_last_of_several_threads_gives_blas_its_threads_back():
    before = blas_threads()
    inside, over = threading.Event(), threading.Event()

    def other() -> None:
        with one_blas_thread():
            inside.set()
            over.wait(60)

    thread = threading.Thread(target=other)
    with one_blas_thread():
        thread.start()
        inside.wait(60)
    while_the_other_works = blas_threads()
    over.set()
    thread.join()
    assert (while_the_other_works, blas_threads()) == ({1}, before)


def test_models_fitted_in_two_threads_leave_blas_its_threads():
    before = blas_threads()
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), rng.normal(size=(40, 1))
    spec = make_spec("oebe", bases=["linear", "nystrom"], features_per_basis=4)

    def work() -> None:
        list(StreamLearner(StreamSettings(spec, num_inputs=2, warmup=30)).learn(X, y))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert blas_threads() == before


def test_products_of_single_rows_keep_to_one_thread(monkeypatch: pytest.MonkeyPatch):
    fold, seen = rowfilter.np.swapaxes, []

    def watched(a: np.ndarray, *axes: int) -> np.ndarray:
        seen.append((a.shape[-2], blas_threads()))
        return fold(a, *axes)

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 2)), rng.normal(size=100)
    model = StreamingGPRegressor("linear", warmup=20, random_state=0).partial_fit(X[:30], y[:30])
    monkeypatch.setattr(rowfilter.np, "swapaxes", watched)
    with threadpool_limits(2):
        for x, target in zip(X[30:], y[30:], strict=True):
            model.learn_one(x, target)
    folded = [threads for waiting, threads in seen if waiting == rowfilter.PENDING]
    assert folded and all(threads == {1} for threads in folded)


def test_features_and_filters_of_single_rows_keep_to_one_thread(monkeypatch: pytest.MonkeyPatch):
    """With two, on a busy machine, a row took ten times as long."""
    rng, seen = np.random.default_rng(0), []
    X, y = rng.normal(size=(230, 2)), rng.normal(size=230)
    model = StreamingGPRegressor("e-doebe", bases=["nystrom"], features_per_basis=100, warmup=200, random_state=0)
    model.partial_fit(X[:210], y[:210])
    call = Nystrom.__call__

    def watched(self: Nystrom, X: np.ndarray) -> np.ndarray:
        seen.append(blas_threads())
        return call(self, X)

    monkeypatch.setattr(Nystrom, "__call__", watched)
    with threadpool_limits(2):
        for x, target in zip(X[210:], y[210:], strict=True):
            model.predict_one(x)
            model.learn_one(x, target)
        assert blas_threads() == {2}
    assert seen and all(threads == {1} for threads in seen)


WITHOUT_KERNEL = """
import sys
from pathlib import Path
from streamgp.numerics import native
native.FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else native.FOLDER
import numpy as np
from streamgp import StreamingGPRegressor
rng = np.random.default_rng(0)
X = rng.normal(size=(700, 3))
y = np.sin(2.0 * X[:, 0]) + X[:, 1] * (1.0 + np.arange(700) / 700) + 0.3 * rng.standard_t(4, size=700)
y[450] = 50.0
found = []
for name in ("linear", "fast", "default"):
    model = StreamingGPRegressor(name, warmup=300, random_state=0).partial_fit(X[:300], y[:300])
    for part in (slice(300, 400), slice(400, 620)):
        found += model.predict(X[part], return_std=True)
        model.partial_fit(X[part], y[part])
    for i in range(620, 700):
        found.append(np.array(model.predict_one(X[i])))
        model.learn_one(X[i], y[i])
    found.append(model.predict_quantiles(X[:5], [0.05, 0.9]).ravel())
print(native.library() is None)
print(np.concatenate([np.ravel(a) for a in found]).tolist())
"""


def test_numbers_are_the_same_without_the_kernel(tmp_path: Path):
    said = [
        subprocess.run([sys.executable, "-c", WITHOUT_KERNEL, *folder], capture_output=True, text=True, check=True)
        for folder in ([], [str(tmp_path)])
    ]
    (built, ours), (missing, theirs) = (each.stdout.splitlines()[-2:] for each in said)
    if built == "True":
        pytest.skip("needs the kernel in C, which was not built")
    assert missing == "True"
    np.testing.assert_allclose(json.loads(ours), json.loads(theirs), rtol=1e-9, atol=1e-9)


def test_an_error_inside_gives_blas_its_threads_back():
    before = blas_threads()
    with pytest.raises(KeyError), one_blas_thread(), one_blas_thread():
        raise KeyError
    assert blas_threads() == before


def test_centres_do_not_depend_on_the_number_of_threads():
    X = np.random.default_rng(0).normal(size=(2_000, 3))
    found = []
    for threads in (1, 2, 4):
        with threadpool_limits(threads):
            found.append(np.asarray(k_means(X, 20, keys.key(0))))
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


def test_predictions_of_many_rows_do_not_depend_on_blas_threads():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = X @ [[1.0], [2.0], [-1.0]] + 0.1 * rng.normal(size=(400, 1))
    learner = StreamLearner(
        StreamSettings(make_spec("oebe", bases=["fourier"], features_per_basis=400), num_inputs=3, warmup=200)
    )
    list(learner.learn(X[:200], y[:200]))
    found = []
    for threads in (1, 2, 4):
        with threadpool_limits(threads, user_api="blas"):
            found.append(learner.predict(X[200:250]))
    for other in found[1:]:
        np.testing.assert_array_equal(other.var, found[0].var)
        np.testing.assert_array_equal(other.loc, found[0].loc)
