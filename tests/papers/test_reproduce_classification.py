"""Reproductions of classification: experts and mixtures against plain loops, baselines, order of rows, tables."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from scipy.optimize import brentq
from scipy.special import expit
from typer.testing import CliRunner

from streamgp.app.cli import app
from streamgp.app.outputs import RunError
from streamgp.bases import BASES
from streamgp.likelihoods import Logistic
from streamgp.models.fitting.laplace_evidence import LaplaceFit, evidence_and_gradient
from streamgp.numerics import keys
from streamgp_papers import catalogue, classification, classification_baselines
from streamgp_papers.bank import Family, fit_experts, fit_family
from streamgp_papers.classification_baselines import NAMES, ClassificationData, predict
from streamgp_papers.classification_stream import LOGISTIC, ClassificationScorer, stream_classes
from streamgp_papers.data_files import load
from streamgp_papers.datasets import DATASETS
from streamgp_papers.found import ReproductionResult, assess
from streamgp_papers.kinds import Claim, Reproduction, Shown
from streamgp_papers.mixing import Mix
from streamgp_papers.stream import score
from streamgp_papers.verdicts import (
    NOT_COMPARABLE,
    NOT_REPRODUCED,
    REPRODUCED,
    UNDECIDED,
    compute_gains,
)

pytestmark = pytest.mark.papers

ROWS, WARMUP = 64, 20
RNG = np.random.default_rng(5)
X = RNG.normal(size=(ROWS, 2))
Y = (RNG.uniform(size=ROWS) < expit(3.0 * X[:, 0] + X[:, 1])).astype(float)
SMALL = Family("dictionary", "fourier", 4, (0.5, 2.0), plain=True, fixed=True)
MIXES = (
    Mix("IE-GP", moving=False),
    Mix("SIE-GP", moving=False, switch=0.1),
    Mix("DIE-GP", moving=True),
    Mix("DSIE-GP", moving=True, switch=0.1),
)


def filtered(phi: np.ndarray, y: np.ndarray, v: float, q: float) -> np.ndarray:
    """Log probability of every label, predicted by plain loops: a Laplace step a row, the integral by a sum."""
    mean, cov = np.zeros(phi.shape[1]), v * np.eye(phi.shape[1])
    grid = np.linspace(-9.0, 9.0, 4001)
    density = np.exp(-0.5 * grid**2) / np.sum(np.exp(-0.5 * grid**2))
    found = []
    for row, label in zip(phi, 2.0 * y - 1.0, strict=True):
        cov = cov + q * np.eye(len(cov))
        m, s = row @ mean, row @ cov @ row
        found.append(np.log(np.sum(density * expit(label * (m + np.sqrt(s) * grid)))))
        mode = brentq(
            lambda f, m, s, label: (f - m) / s - label * expit(-label * f), m - s, m + s, (m, s, label), 1e-14
        )
        curvature = expit(mode) * expit(-mode)
        gain = cov @ row
        mean = mean + gain * (mode - m) / s
        cov = cov - np.outer(gain, gain) * curvature / (1.0 + curvature * s)
    return np.array(found)


def test_experts_and_their_mixtures_are_those_of_plain_loops():
    experts, members = fit_experts([SMALL], X, Y, 0, LOGISTIC)
    assert [(member.basis, member.moving) for member in members] == [(0, False), (0, True), (1, False), (1, True)]
    each = np.stack(
        [
            filtered(np.asarray(expert.basis(X)), Y, float(expert.prior_var), 1e-3 * member.moving)
            for expert, member in zip(experts, members, strict=True)
        ],
        axis=1,
    )
    result = score(stream_classes(experts, X, Y), members, MIXES, ClassificationScorer)
    for mix in MIXES:
        chosen = each[:, 1::2] if mix.moving else each[:, ::2]
        switch = mix.switch or 0.0
        Q = np.array([[1.0 - switch, switch], [switch, 1.0 - switch]])
        w, probability = np.full(2, 0.5), []
        for density in np.exp(chosen):
            w = Q @ w
            probability.append(w @ density)
            w = w * density / probability[-1]
        scores = result["models"][mix.name]
        np.testing.assert_allclose(scores["log_loss"], -np.mean(np.log(probability)), rtol=1e-7)
        # The very first forecast is a half: class 0.
        wrong = np.where(np.arange(ROWS) == 0, Y == 1, np.array(probability) < 0.5)
        assert scores["error"] == pytest.approx(100.0 * wrong.mean())
        assert result["curves"][mix.name]["error"][-1] == pytest.approx(scores["error"], rel=1e-4)


def test_draws_surround_the_optimum_as_wide_as_the_evidence_says():
    count = 60
    ((fit, *draws),) = fit_family(replace(SMALL, starts=(0.5,), samples=1 + count), X, Y, 0, LOGISTIC)
    np.testing.assert_array_equal(draws[0].basis.lengthscale, [0.5, 0.5])
    np.testing.assert_array_equal(draws[0].basis.frequencies, fit.basis.frequencies)

    def evidence(log_v: float) -> float:
        start = np.zeros((1, fit.basis.num_features))
        return evidence_and_gradient(fit.likelihood, fit.basis(X), Y, np.exp(log_v), start)[0]

    at = np.log(fit.prior_var)
    low, middle, high = (evidence(at + step) for step in (-0.1, 0.0, 0.1))
    curvature = (2.0 * middle - low - high) / 0.01
    expected = 1.0 / np.sqrt(max(curvature, 1.0))  # no direction has more than that
    assert expected < 0.99
    moves = np.log([draw.prior_var for draw in draws]) - at
    assert abs(np.mean(moves)) < 4.0 * expected / np.sqrt(count)
    assert abs(np.std(moves) / expected - 1.0) < 4.0 / np.sqrt(2.0 * count)


def test_the_centres_of_a_network_are_perturbed():
    basis = BASES["rbf-optimised"].from_data(X, num_features=12, start=1.0, key=keys.key(0))
    fit = LaplaceFit(basis, 1.0, Logistic(np.asarray(0.0)), 0.0, 0.0, 1.0, 0)
    rows, labels = jnp.asarray(X), jnp.asarray(Y)
    draws = LOGISTIC.draws(fit, basis, tuple(basis.trainable), rows, labels, 2, keys.key(1))
    moved = np.stack([draw.basis.centres - basis.centres for draw in draws])
    assert abs(np.mean(moved**2) / 1e-3 - 1.0) < 4.0 * np.sqrt(2.0 / moved.size)
    assert not np.array_equal(*moved)


# Baselines


def rows_of(y: np.ndarray) -> ClassificationData:
    return ClassificationData(X, X, [X[:, :1], np.tanh(X)], y, WARMUP, 0)


def test_no_baseline_has_seen_the_label_that_it_predicts():
    groups = [group for group in classification_baselines.GROUPS if group != classification_baselines.DEFAULT]
    pytest.importorskip("river")
    at = 40  # where a batch begins
    other = np.concatenate([Y[:at], 1.0 - Y[at:]])
    (one, none), (changed, _) = (predict(groups, rows_of(y)) for y in (Y, other))
    assert none == []
    assert [*one] == [name for name in NAMES if name != classification_baselines.DEFAULT]
    for name, forecast in one.items():
        np.testing.assert_array_equal(forecast.predicted[: at + 1], changed[name].predicted[: at + 1], err_msg=name)
        if forecast.log_probability is None:
            assert (forecast.predicted[at + 1 :] != changed[name].predicted[at + 1 :]).any(), name
        else:  # of the two labels that a row may have
            both = np.exp(forecast.log_probability[at:]) + np.exp(changed[name].log_probability[at:])
            np.testing.assert_allclose(both[0], 1.0, rtol=1e-9, err_msg=name)
            assert np.abs(both[1:] - 1.0).max() > 1e-3, name


def test_a_missing_package_is_a_sentence(monkeypatch: pytest.MonkeyPatch):
    for module in ("river", "river.linear_model", "river.forest"):
        monkeypatch.setitem(sys.modules, module, None)
    found, remarks = predict(("river logistic", "naive"), rows_of(Y))
    assert [*found] == ["last label", "class frequencies"]
    assert remarks == ["No river logistic: it needs the package river, which `pip install river` brings."]


def test_copies_are_chosen_and_weighed_by_what_they_said_before():
    said = np.random.default_rng(1).uniform(0.05, 0.95, (ROWS, 2))
    copies = iter([Y, *said.T])
    run = classification_baselines._linear("some", lambda features, y, seed: next(copies))
    found = dict(run(rows_of(Y)))
    of_label = np.where(Y[:, None] == 1, said, 1.0 - said)
    best, mixture = [], []
    for t in range(ROWS):
        total = np.prod(of_label[:t], axis=0)
        best.append(of_label[t, np.argmax(total)])
        mixture.append(total @ of_label[t] / total.sum())
    np.testing.assert_allclose(np.exp(found["some, best features"].log_probability), best, rtol=1e-9)
    np.testing.assert_allclose(np.exp(found["some, mixed features"].log_probability), mixture, rtol=1e-9)


# Data


def write(directory: Path, name: str, x: np.ndarray = X, y: np.ndarray = Y) -> None:
    columns = {"x0": x[:, 0], "x1": x[:, 1], "label": y.astype(int)}
    pl.DataFrame(columns).write_parquet(directory / DATASETS[name].file)


def test_rows_come_in_the_order_of_the_data_set(tmp_path: Path):
    write(tmp_path, "banana")
    inputs, labels = load("banana", tmp_path)
    np.testing.assert_array_equal(inputs, X)
    np.testing.assert_array_equal(labels, Y)
    inputs, labels = load("banana-sorted", tmp_path, 50)
    np.testing.assert_array_equal(inputs[:, 0], np.sort(X[:, 0])[:50])
    np.testing.assert_array_equal(labels, Y[np.argsort(X[:, 0])][:50])
    first, again, other = (load("banana-shuffled", tmp_path, 50, seed)[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first, X[:50])
    whole, labels = load("banana-shuffled", tmp_path, None, 1)
    order = np.argsort(whole[:, 0])
    np.testing.assert_array_equal(whole[order], X[np.argsort(X[:, 0])])
    np.testing.assert_array_equal(labels[order], Y[np.argsort(X[:, 0])])


# From the command line


def invoke(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["reproduce", "--jobs", "1", *map(str, words)], env={"COLUMNS": "220"})
    return result.exit_code, " ".join((result.stdout + result.stderr).split())


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The experiment of Lu et al. with four features, two lengthscales and naive baselines, on a small table."""
    settings = {"warmup": WARMUP / ROWS, "families": (SMALL,), "mixes": MIXES, "rivals": ("naive",)}
    one = replace(classification.IE_GP, settings=settings)
    monkeypatch.setitem(catalogue.REPRODUCTIONS, "ie-gp-classification", one)
    monkeypatch.setitem(DATASETS, "banana", replace(DATASETS["banana"], rows=ROWS))
    write(tmp_path, "banana")
    return tmp_path


def test_an_experiment_from_data_to_verdicts(small: Path):
    out = small / "out" / "labels.json"
    code, said = invoke("ie-gp-classification", "--data", small, "--out", out, "--trials", 1)
    assert code == 0, said
    run = json.loads(out.read_text())["runs"]["banana 0"]
    assert [*run["models"]] == [*(mix.name for mix in MIXES), "last label", "class frequencies"]
    last = run["models"]["last label"]
    assert last["error"] == pytest.approx(100.0 * np.mean(Y[WARMUP:] != Y[WARMUP - 1 : -1]))
    assert last["error_all"] == pytest.approx(100.0 * (np.sum(Y[1:] != Y[:-1]) + 1) / ROWS)
    assert set(run["models"]["IE-GP"]) == {"error", "log_loss", "error_all", "log_loss_all", "seconds"}
    both = [run["models"][name]["error"] for name in ("IE-GP", "SIE-GP")]
    apart = f"apart: {np.ptp(both):.3f}, at most 1"
    assert "SIE-GP errs as IE-GP does │ Banana │ error │" in said
    row = said.split("│ SIE-GP errs as IE-GP does │")[1][:160]
    assert apart in row
    assert "│ undecided │ 1 trial, fewer than 5; here: " + ("yes" if np.ptp(both) < 1.0 else "no") in row
    assert "Not available: musk2.parquet: Musk, 6,598 rows of 166 inputs and a target in the column label" in said
    assert (small / "out" / "labels-banana-errors.png").exists()


def make_result(trials: int, one: Reproduction = classification.IE_GP) -> ReproductionResult:
    """Runs of two models, `here` ahead by some 2.5 points, and a third that came late; `coin` learns nothing."""
    runs = {
        f"banana {seed}": {
            "rows": 5300,
            "models": {
                name: {"error": error, "log_loss": error}
                for name, error in (("here", each), ("there", 12.0), ("coin", 12.0 + (-1) ** seed))
            },
        }
        for seed, each in enumerate((9.0, 9.5, 9.7, 9.6, 9.4, 9.3)[:trials])
    }
    runs["banana 1"]["models"]["late"] = {"error": 1.0}  # its package came later
    return ReproductionResult(one, [SHOWN], [], runs, trials, None)


SHOWN = Shown("banana", "banana")
BEST = Claim("", "banana", "error", ("here",), ("there", "late"))


def test_statements_about_a_number_and_about_models_that_are_missing():
    result = make_result(6)
    assert result.models("banana") == ["here", "there", "coin"]
    under = Claim("", "banana", "error", ("here", "late"), number=10.0)
    assert assess(result, under, SHOWN) == ("here over 10: +0.550", (REPRODUCED, "p = 0.016", REPRODUCED))
    assert assess(result, replace(under, number=9.4), SHOWN)[1].word == UNDECIDED
    assert assess(result, replace(under, worse=True), SHOWN)[1].word == NOT_REPRODUCED
    assert assess(result, replace(under, worse=True, number=8.0), SHOWN)[1].word == REPRODUCED
    assert assess(result, replace(under, within=1.1), SHOWN)[1].word == REPRODUCED
    assert assess(result, BEST, SHOWN)[0] == "here over there: +2.550 (+21%)"
    none = Claim("", "banana", "error", ("here",), ("late",))
    assert assess(result, none, SHOWN)[1][:2] == (NOT_COMPARABLE, "no run has its models")
    close = replace(BEST, ahead=("there",), behind=("here",), within=3.1)
    assert assess(result, close, SHOWN)[0] == "there behind here: 2.550, at most 3.1"
    assert assess(result, close, SHOWN)[1].word == REPRODUCED
    assert assess(result, replace(close, within=2.2), SHOWN)[1].word == NOT_REPRODUCED
    span = replace(close, ahead=("there", "here"), behind=(), within=2.2)
    assert assess(result, span, SHOWN)[:1] == ("apart: 2.550, at most 2.2",)
    assert assess(result, span, SHOWN)[1].word == NOT_REPRODUCED
    assert assess(result, replace(BEST, times=1.2), SHOWN)[1].word == REPRODUCED
    assert assess(result, replace(BEST, times=1.4), SHOWN)[1].word == NOT_REPRODUCED


def test_what_was_found_is_shown_beside_every_reason_to_doubt():
    result, few = make_result(6), make_result(3)
    assert assess(few, BEST, SHOWN)[1][:2] == (
        UNDECIDED,
        "3 trials, fewer than 5; here: yes, 3 of 3 trials, level 0.125",
    )
    open_claim = replace(BEST, open="no such runs can decide it")
    assert assess(result, open_claim, SHOWN)[1][:2] == (UNDECIDED, "no such runs can decide it; here: yes, p = 0.016")
    doubtful = replace(open_claim, doubt="other rates")
    word, why, found = assess(result, doubtful, SHOWN)[1]
    assert (word, found) == (NOT_COMPARABLE, REPRODUCED) and why.startswith("other rates; no such runs")
    result.runs["banana 0"]["inputs"] = 3  # pyright: ignore[reportIndexIssue]
    word, why, _ = assess(result, doubtful, SHOWN)[1]
    assert word == NOT_COMPARABLE and why.startswith("3 inputs, the paper's have 2; other rates; no such")


def test_a_win_over_what_learns_nothing_and_the_finding_of_another_score():
    watched = replace(classification.IE_GP, control="coin", beside={"error": "log_loss"}, labels={"here": "ours"})
    result = make_result(6, watched)
    gain, verdict = assess(result, BEST, SHOWN)
    assert gain.startswith("ours over there")
    why = "there is not ahead of 'coin' (p = 0.66); here: yes, p = 0.016; by log_loss: yes, p = 0.016"
    assert verdict == (NOT_COMPARABLE, why, REPRODUCED)
    ahead = {name: run["models"]["coin"].update(error=13.0) for name, run in result.runs.items()}
    assert ahead and assess(result, BEST, SHOWN)[1].word == REPRODUCED


def test_inputs_that_never_change_may_be_left_out():
    runs = {"ionosphere 0": {"rows": 351, "inputs": 33, "models": {"here": {"error": 1.0}}}}
    shown = Shown("ionosphere", "ionosphere")
    result = ReproductionResult(classification.IE_GP, [shown], [], runs, 1, None)
    assert result.obstacle(shown) == ""
    runs["ionosphere 0"]["inputs"] = 32
    assert result.obstacle(shown) == "32 inputs, the paper's have 34"


def test_differences_by_rounding_are_none():
    assert compute_gains("error", [1.0, 2.0], [1.0 + 1e-15, 3.0]).tolist() == [0.0, 1.0]
    assert compute_gains("error", [np.inf, 2.0], [np.inf, np.inf]).tolist() == [0.0, np.inf]


def test_other_labels_and_too_few_rows_are_one_sentence(small: Path):
    words = ("ie-gp-classification", "--data", small, "--out", small / "a.json", "--trials", 1)
    code, said = invoke(*words, "--rows", 5)
    assert code == 1
    assert "banana: expected more than the 1 rows of the warm-up, at least 2, got 5; give more --rows" in said
    write(small, "banana", y=Y + 1.0)
    code, said = invoke(*words)
    assert code == 1
    assert "banana: expected labels 0 and 1, got 1, 2" in said
    jax.clear_caches()


def test_without_labels_the_column_is_named(tmp_path: Path):
    pl.DataFrame({"x0": X[:, 0], "y": Y}).write_parquet(tmp_path / "banana.parquet")
    with pytest.raises(RunError, match="expected a target in the column label, got x0, y"):
        load("banana", tmp_path)
