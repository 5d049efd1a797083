"""The experts of a reproduction and their mixtures, against the library's own learner and against plain loops."""

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import polars as pl
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from streamgp.app.outputs import RunError
from streamgp.models.registry import make_spec
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings
from streamgp_papers import doebe
from streamgp_papers.bank import ExpertPredictions, Family, Member, fit_experts, fit_family, standardise, stream
from streamgp_papers.data_files import load
from streamgp_papers.datasets import DATASETS
from streamgp_papers.mixing import Mix, Scorer
from streamgp_papers.stream import run_stream

pytestmark = pytest.mark.papers

WARMUP = 60
RNG = np.random.default_rng(3)
X = RNG.normal(size=(160, 2)) * [1.0, 5.0] + 3.0
Y = 40.0 + 7.0 * np.sin(X[:, 0]) + X[:, 1] + RNG.normal(size=160)


def warmup_rows() -> tuple[np.ndarray, np.ndarray]:
    inputs, targets = standardise(X, Y, WARMUP)
    return inputs[:WARMUP], targets[:WARMUP]


@pytest.mark.parametrize("moving", [False, True])
def test_a_bank_predicts_as_the_librarys_own_learner_from_the_prior(moving: bool):
    dynamics = ["walk 0.001"] if moving else ["static"]
    spec = replace(make_spec("linear", dynamics=dynamics, warmup_posterior="prior"), q_absolute=True)
    learner = StreamLearner(StreamSettings(spec, num_inputs=2, warmup=WARMUP))
    infos = list(learner.learn(X, Y[:, None]))
    expected = np.concatenate([np.asarray(info.predictive.log_density(y)) for info, y in _with_targets(infos)])
    inputs, targets = standardise(X, Y, WARMUP)
    family = Family("Linear", "linear", starts=(1.0,), moving=(moving,))
    experts, members = fit_experts([family], inputs[:WARMUP], targets[:WARMUP], 0)
    scorer = Scorer(Mix("linear"), members)
    for stretch in stream(experts, inputs[WARMUP:], targets[WARMUP:]):
        scorer.add(stretch)
    unit = np.log(np.std(Y[:WARMUP]))
    np.testing.assert_allclose(scorer.scores()["pll"], expected[WARMUP:].mean() + unit, rtol=1e-9)


def _with_targets(infos: list) -> list:
    ends = np.cumsum([len(info.predictive.loc) for info in infos])
    return list(zip(infos, np.split(Y[:, None], ends[:-1]), strict=True))


def test_starts_are_as_the_papers_have_them():
    rows, targets = warmup_rows()
    (plain,), (fixed,) = (
        fit_family(Family("RFF", "fourier", 6, (0.5,), plain=True, fixed=fixed), rows, targets, 0)
        for fixed in (False, True)
    )
    np.testing.assert_array_equal(fixed[0].basis.lengthscale, [0.5, 0.5])
    assert (np.asarray(plain[0].basis.lengthscale) != 0.5).all()
    orders = fit_family(Family("Poly", "polynomial", starts=(2, 4)), rows, targets, 0)
    assert [fits[0].basis.num_features for fits in orders] == [5, 9]
    every = fit_family(Family("RFF", "fourier", 6, (0.1, 1.0)), rows, targets, 0)
    ((best,),) = fit_family(Family("RFF", "fourier", 6, (0.1, 1.0), best=True), rows, targets, 0)
    assert best.log_evidence == max(fits[0].log_evidence for fits in every)


def test_draws_surround_the_optimum_and_share_its_frequencies():
    rows, targets = warmup_rows()
    ((alone,),) = fit_family(Family("RFF", "fourier", 6, (1.0,)), rows, targets, 5)
    (fits,) = fit_family(Family("RFF", "fourier", 6, (1.0,), samples=3), rows, targets, 5)
    assert len(fits) == 3
    np.testing.assert_array_equal(fits[0].basis.lengthscale, alone.basis.lengthscale)
    for draw in fits[1:]:
        np.testing.assert_array_equal(draw.basis.frequencies, alone.basis.frequencies)
        assert (np.asarray(draw.basis.lengthscale) != np.asarray(alone.basis.lengthscale)).all()
    (other,) = fit_family(Family("RFF", "fourier", 6, (1.0,)), rows, targets, 6)
    assert (np.asarray(other[0].basis.frequencies) != np.asarray(alone.basis.frequencies)).all()


# Mixtures: two bases, each static and moving

MEMBERS = [Member("A", 0, 0, False), Member("A", 0, 0, True), Member("B", 1, 1, False), Member("B", 1, 1, True)]


def stretch(n: int = 90, seed: int = 0) -> ExpertPredictions:
    rng = np.random.default_rng(seed)
    return ExpertPredictions(rng.normal(size=n), rng.normal(size=(n, 4)), rng.uniform(0.2, 2.0, (n, 4)))


def scored(mix: Mix, rows: ExpertPredictions, cut: int) -> Scorer:
    scorer = Scorer(mix, MEMBERS)
    for part in (slice(0, cut), slice(cut, None)):
        scorer.add(ExpertPredictions(*(a[part] for a in rows)))
    return scorer


@pytest.mark.parametrize("chosen", [(0, 1, 2, 3), (2, 3)])
def test_e_doebe_and_its_leak_are_those_of_the_textbook(chosen: tuple[int, ...]):
    delta, rows, k = 0.1, stretch(), list(chosen)
    same = np.array([[MEMBERS[i].basis == MEMBERS[j].basis for j in k] for i in k])
    Q = np.where(np.eye(len(k), dtype=bool), 1.0 - delta, np.where(same, delta, 0.0))
    w, honest, leaking = np.full(len(k), 1.0 / len(k)), [], []
    for y, loc, var in zip(*rows, strict=True):
        density = norm.pdf(y, loc[k], np.sqrt(var[k]))
        w = Q @ w
        after = w * density / np.sum(w * density)
        for weights, into in ((w, honest), (after, leaking)):
            mean = weights @ loc[k]
            variance = weights @ (var[k] + (loc[k] - mean) ** 2)
            into.append(
                ((mean - y) ** 2, np.log(weights @ density), norm.logpdf(y, mean, np.sqrt(variance)))
            )  # fmt: skip
        w = after
    unit = [np.var(rows.y), 1.0, 1.0]
    expected = np.concatenate([np.mean(honest, axis=0) / unit, np.mean(leaking, axis=0) / unit])
    mix = Mix("some", ("B",) if len(k) == 2 else (), delta=delta, leak=True)
    scores = scored(mix, rows, 37).scores()
    assert list(scores) == ["nmse", "pll", "pll_moment", "nmse_leak", "pll_leak", "pll_moment_leak"]
    np.testing.assert_allclose([*scores.values()], expected, rtol=1e-10)


def test_bayes_rule_drops_for_good_what_falls_below_the_threshold():
    n, drop = 300, 60
    y = np.zeros(n)
    loc = np.zeros((n, 4))
    loc[:drop, [1, 3]] = 2.0  # two nats a row against the moving experts, until they are the only good ones
    loc[drop:, [0, 2]] = 2.0
    rows = ExpertPredictions(y + 1e-3 * np.arange(n), loc, np.ones((n, 4)))
    assert scored(Mix("BMA"), rows, 10).moving_weight()["zero_from"] == 1 + 1 + int(np.log(1e16) / 2)
    never = scored(Mix("no threshold", shutdown=0.0), rows, 10).moving_weight()
    assert never["zero_from"] is None
    assert never["weight"][-1] > 0.99
    mean_weight = scored(Mix("E-DOEBE", delta=0.01), rows, 10).moving_weight()
    assert mean_weight["rows"][0] == 10
    assert mean_weight["weight"][-1] > 0.9


def test_a_model_has_the_experts_that_it_names():
    assert Mix("all").chosen(MEMBERS).tolist() == [0, 1, 2, 3]
    assert Mix("static", moving=False).chosen(MEMBERS).tolist() == [0, 2]
    assert Mix("moving B", ("B",), moving=True).chosen(MEMBERS).tolist() == [3]
    assert Mix("optima", optima=True).chosen(MEMBERS).tolist() == [0, 1]
    with pytest.raises(ValueError, match="expected experts of C"):
        Scorer(Mix("none", ("C",)), MEMBERS)


def test_a_curve_ends_at_the_score_and_a_weight_is_averaged_over_ten_rows():
    rows = stretch(200)
    scorer = scored(Mix("some", shutdown=0.0), rows, 50)
    scores, curve, weight = scorer.scores(), scorer.curve(), scorer.moving_weight()
    assert curve["rows"][0] == 10
    assert curve["rows"][-1] == weight["rows"][-1] == 200
    np.testing.assert_allclose([curve["nmse"][-1], curve["pll"][-1]], [scores["nmse"], scores["pll"]], rtol=1e-4)
    total = np.cumsum(norm.logpdf(rows.y[:, None], rows.loc, np.sqrt(rows.var)), axis=0)
    log_weights = np.concatenate([np.zeros((1, 4)), total[:-1]])
    moving = np.exp(logsumexp(log_weights[:, [1, 3]], axis=1) - logsumexp(log_weights, axis=1))
    np.testing.assert_allclose(weight["weight"][0], moving[:10].mean(), rtol=1e-4)
    np.testing.assert_allclose(weight["weight"][-1], moving[-10:].mean(), rtol=1e-4)
    few = scored(Mix("some", shutdown=0.0), ExpertPredictions(*(a[:4] for a in rows)), 4).moving_weight()
    assert few["rows"] == [4]
    np.testing.assert_allclose(few["weight"], moving[:4].mean(), rtol=1e-4)


# Data


def test_a_missing_file_is_named_with_its_content_and_its_origin(tmp_path: Path):
    with pytest.raises(RunError, match=r"kuka1\.parquet: Kuka #1, 197,920 rows of 21 inputs .* from Meier"):
        load("kuka1", tmp_path)


def test_a_file_is_read_as_described(tmp_path: Path):
    columns = {"x0": [1, 2, None, 4, 5], "x1": [7] * 5, "y": [1.0, 2.0, 3.0, float("nan"), 5.0], "y2": [0] * 5}
    frame = pl.DataFrame(columns)
    frame.write_parquet(tmp_path / "sarcos.parquet")
    inputs, targets = load("sarcos", tmp_path)
    np.testing.assert_array_equal(inputs, [[1.0], [2.0], [5.0]])
    np.testing.assert_array_equal(targets, [1.0, 2.0, 5.0])
    assert len(load("sarcos", tmp_path, 2)[1]) == 2
    frame.drop("y").write_parquet(tmp_path / "sarcos.parquet")
    with pytest.raises(RunError, match=r"sarcos\.parquet: expected a target in the column y, got x0, x1, y2"):
        load("sarcos", tmp_path)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"x": ["a", "b", "c"], "y": [1.0, 2.0, 3.0]}, "expected numbers in every column, but not so in x"),
        ({"x": [None, None, None], "y": [1.0, 2.0, 3.0]}, "expected numbers in every column, but not so in x"),
        ({"x": [1.0, 2.0, 3.0], "y": [1.0, 1.0, np.inf]}, "got 2 rows without gaps in which y does not"),
        ({"x": [1.0, 1.0, 1.0], "y": [1.0, 2.0, 3.0]}, "got 3 rows without gaps in which x does not"),
        ({"x": [np.nan, np.nan, 1.0], "y": [1.0, 2.0, None]}, "got 0 rows without gaps in which x, y do not"),
        (None, "expected a Parquet file, but"),
    ],
)
def test_a_file_from_which_nothing_can_be_learnt_is_one_sentence(tmp_path: Path, columns: dict | None, expected: str):
    path = tmp_path / DATASETS["servo"].file
    path.write_text("no table") if columns is None else pl.DataFrame(columns).write_parquet(path)
    with pytest.raises(RunError, match=expected):
        load("servo", tmp_path)


def test_every_data_set_is_a_file_or_generated():
    for name, data in DATASETS.items():
        assert bool(data.file) != (data.generate is not None) or name.startswith(("iegp", "mkl", "moving", "two-")), (
            name
        )
    X, y = load("friedman2", None, 50)
    assert X.shape == (50, 4)
    np.testing.assert_array_equal(y, load("friedman2", None)[1][:50])


def test_the_collapse_of_table_2_on_the_constructed_stream():
    run = run_stream("constructed", 0, directory=None, rows=None, **doebe.TABLE2.settings)
    weights = run["moving_weight"]
    assert weights["DOEBE"]["zero_from"] < 1000  # before the rule begins to walk, 1,000 rows after the warm-up
    assert weights["DOEBE, no threshold"]["zero_from"] is weights["E-DOEBE"]["zero_from"] is None
    pll = {model: scores["pll_moment"] for model, scores in run["models"].items()}
    assert pll["DOEBE"] < -5.0
    assert pll["E-DOEBE"] > -1.0
    jax.clear_caches()
