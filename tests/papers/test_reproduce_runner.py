"""The runs of a reproduction: kept one by one, gone on with, side by side; and the rule of the verdicts."""

import json
import multiprocessing
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reproduce_work import first_quick, quick
from streamgp.app.outputs import RunError
from streamgp_papers import runner
from streamgp_papers.runner import ResultsFile, Trial, run_all, share_cores
from streamgp_papers.verdicts import (
    BETTER,
    NOT_COMPARABLE,
    NOT_REPRODUCED,
    REPRODUCED,
    UNDECIDED,
    WORSE,
    Figure,
    Verdict,
    assess_claim,
    assess_figure,
    compute_gains,
    qualify,
)

pytestmark = pytest.mark.papers

ABOUT = {"reproduction": "some-table", "rows": None}


def some_trials(work: Any = quick, trials: int = 4, **settings: Any) -> list[Trial]:
    return [Trial("set", seed, work, settings) for seed in range(trials)]


# Runs


def test_every_run_is_in_the_file_before_the_next_one_starts(tmp_path: Path):
    path = tmp_path / "new" / "runs.json"
    before: list[int] = []

    def work(data: str, seed: int) -> dict[str, Any]:
        before.append(len(json.loads(path.read_text())["runs"]) if path.exists() else 0)
        return {"seed": seed}

    run_all(some_trials(work), ResultsFile(path, ABOUT), 1)
    assert before == [0, 1, 2, 3]
    held = json.loads(path.read_text())
    assert held["reproduction"] == "some-table"
    assert held["runs"] == {f"set {seed}": {"seed": seed} for seed in range(4)}


def test_an_interrupted_reproduction_goes_on_where_it_stopped(tmp_path: Path):
    path = tmp_path / "runs.json"
    done: list[int] = []

    def work(data: str, seed: int) -> dict[str, Any]:
        if seed == 2 and len(done) == 2:
            raise KeyboardInterrupt
        done.append(seed)
        return {"seed": seed}

    with pytest.raises(KeyboardInterrupt):
        run_all(some_trials(work), ResultsFile(path, ABOUT), 1)
    assert list(json.loads(path.read_text())["runs"]) == ["set 0", "set 1"]
    done.append(-1)
    results = ResultsFile(path, ABOUT)
    run_all(some_trials(work), results, 1)
    assert done == [0, 1, -1, 2, 3]
    assert json.loads(path.read_text())["runs"] == results.runs == {f"set {i}": {"seed": i} for i in range(4)}


def test_more_trials_keep_those_there_are(tmp_path: Path):
    path = tmp_path / "runs.json"
    run_all(some_trials(trials=2), ResultsFile(path, ABOUT), 1)
    results = ResultsFile(path, ABOUT)
    run_all(some_trials(lambda data, seed: {"late": seed}), results, 1)
    assert [*results.runs.values()] == [*(quick("set", seed) for seed in range(2)), {"late": 2}, {"late": 3}]


def test_runs_of_other_data_or_settings_are_refused(tmp_path: Path):
    path = tmp_path / "runs.json"
    run_all([Trial("set", 0, quick, of="these data")], ResultsFile(path, ABOUT), 1)
    before = path.read_bytes()
    with pytest.raises(RunError, match="'set 0' was made of other data, or with other settings"):
        run_all(
            [Trial("set", 0, quick, of="others"), Trial("set", 1, quick, of="others")], ResultsFile(path, ABOUT), 1
        )
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", "expected runs of this command, got something else"),
        ("[1]", "expected runs of this command"),
        ('{"runs": null}', "expected runs of this command"),
        ('{"runs": [1]}', "expected runs of this command"),
        ('{"runs": {}, "reproduction": "another", "rows": null}', "reproduction 'another', but now .* 'some-table'"),
        ('{"runs": {}, "reproduction": "some-table", "rows": 10, "streamgp": "x"}', "rows 10, but now rows is None"),
        ('{"runs": {}, "reproduction": "some-table", "rows": null, "streamgp": "0"}', "streamgp '0', but now"),
    ],
)
def test_a_file_of_something_else_is_refused_and_stays(tmp_path: Path, content: str, expected: str):
    path = tmp_path / "runs.json"
    path.write_text(content)
    with pytest.raises(RunError, match=expected):
        ResultsFile(path, ABOUT)
    assert path.read_text() == content


def test_numbers_that_are_not_finite_are_null_in_the_file_and_out_of_it(tmp_path: Path):
    results = ResultsFile(tmp_path / "runs.json", ABOUT)
    run_all([Trial("set", 0, lambda *_: {"pll": -np.inf, "curve": [np.nan, 1.0]})], results, 1)
    held = json.loads(results.path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert held["runs"] == results.runs == {"set 0": {"pll": None, "curve": [None, 1.0]}}


def test_a_place_that_cannot_be_written_to_is_found_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def work(*_: Any) -> dict[str, Any]:
        raise AssertionError("work was done in vain")

    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        run_all([Trial("set", 0, work)], ResultsFile(tmp_path / "file" / "runs.json", ABOUT), 1)
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(RunError, match="--out: expected a directory that can be written to"):
        run_all([Trial("set", 0, work)], ResultsFile(tmp_path / "runs.json", ABOUT), 1)


def test_processes_side_by_side_give_the_same_runs(tmp_path: Path):
    results = ResultsFile(tmp_path / "runs.json", ABOUT)
    run_all(some_trials(), results, 2)
    assert results.runs == {f"set {seed}": quick("set", seed) for seed in range(4)}
    assert not multiprocessing.active_children()


def test_an_interrupt_ends_the_processes_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    results = ResultsFile(tmp_path / "runs.json", ABOUT)
    add = results.add

    def add_and_stop(key: str, run: dict[str, Any]) -> None:
        add(key, run)
        raise KeyboardInterrupt

    monkeypatch.setattr(results, "add", add_and_stop)
    with pytest.raises(KeyboardInterrupt):
        run_all(some_trials(first_quick, folder=tmp_path), results, 2)
    assert list(json.loads(results.path.read_text())["runs"]) == ["set 0"]
    deadline = time.monotonic() + 20
    while multiprocessing.active_children() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not multiprocessing.active_children()


def test_processes_share_the_cores(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runner, "available_cores", lambda: [0, 1, 4, 5, 6])
    assert share_cores(2) == [[0, 4, 6], [1, 5]]
    assert share_cores(7) == [[0], [1], [4], [5], [6], [0], [1]]


# Verdicts

TRIALS = [0.4, 0.6, 0.4, 0.6, 0.4, 0.6, 0.9]


@pytest.mark.parametrize(
    ("metric", "ours", "paper", "word"),
    [
        ("pll", [0.485], Figure(0.5), REPRODUCED),  # within .02 nats
        ("pll", [0.53], Figure(0.5), BETTER),
        ("pll_moment", [0.47], Figure(0.5), WORSE),
        ("nmse", [0.101], Figure(0.1), REPRODUCED),  # within 2% of it
        ("nmse", [0.103], Figure(0.1), WORSE),
        ("nmse", [0.09], Figure(0.1), BETTER),
        ("pll", [0.47], Figure(0.5, 0.02), REPRODUCED),  # within two of the paper's standard deviations
        ("pll", TRIALS, Figure(0.53), UNDECIDED),  # our mean, .53, is known to .06 alone
        ("pll", TRIALS, Figure(0.45), UNDECIDED),
        ("pll", TRIALS, Figure(0.53, 0.07), REPRODUCED),
        ("pll", TRIALS, Figure(0.35), BETTER),  # though our trials are .17 apart
        ("pll", TRIALS, Figure(0.35, baseline=True), NOT_REPRODUCED),
        ("nmse", [0.13], Figure(0.1, baseline=True), NOT_REPRODUCED),
        ("nmse", [0.1], Figure(0.1, baseline=True), REPRODUCED),
        ("pll", [-np.inf], Figure(-0.5), WORSE),
    ],
)
def test_a_figure_is_assessed_by_a_tolerance_that_our_noise_does_not_widen(
    metric: str, ours: list[float], paper: Figure, word: str
):
    assert assess_figure(metric, ours, paper).word == word


def test_the_tolerance_is_of_the_mean_of_the_papers_trials():
    paper = Figure(0.5, 0.1)
    assert assess_figure("pll", [0.55], paper).word == REPRODUCED
    assert assess_figure("pll", [0.54], paper, 16).word == REPRODUCED
    assert assess_figure("pll", [0.55], paper, 25) == (BETTER, "+0.05 ± 0, tolerance 0.04", "")
    assert assess_figure("pll", [0.515], paper, 10_000).word == REPRODUCED


def test_doubts_keep_the_finding_and_change_the_word():
    found = Verdict(REPRODUCED, "p = 0.03")
    assert qualify(found, ("", "")) == (REPRODUCED, "p = 0.03", REPRODUCED)
    told = "other data; other rates; here: yes, p = 0.03"
    assert qualify(found, ("other data", "", "other rates", "other data")) == (NOT_COMPARABLE, told, REPRODUCED)
    lost = Verdict(NOT_REPRODUCED, "p = 1")
    assert qualify(lost, (), "a bound") == (UNDECIDED, "a bound; here: no, p = 1", NOT_REPRODUCED)
    assert qualify(lost, ("other data",), "a bound") == (
        NOT_COMPARABLE,
        "other data; a bound; here: no, p = 1",
        NOT_REPRODUCED,
    )


@pytest.mark.parametrize(
    ("gain", "word"),
    [
        ([0.1], REPRODUCED),
        ([-0.1], NOT_REPRODUCED),
        ([0.0], UNDECIDED),
        ([0.1, 0.2, -0.1, 0.3], UNDECIDED),  # four trials that disagree
        ([1.0, 2.0, 3.0, 4.0, 5.0], REPRODUCED),  # p = 1/32, the least of five
        ([1.0, 2.0, 3.0, 4.0, -0.5], UNDECIDED),  # p = 2/32
        ([-1.0, -2.0, -3.0, -4.0, -5.0], NOT_REPRODUCED),
        ([0.0] * 10, UNDECIDED),
    ],
)
def test_a_statement_is_assessed_by_a_signed_rank_test(gain: list[float], word: str):
    assert assess_claim(np.array(gain)).word == word


def test_so_few_trials_say_their_level():
    assert assess_claim(np.ones(3)).why == "3 of 3 trials, level 0.125"
    assert assess_claim(np.array([0.1])).why == "1 of 1 trial, level 0.5"


def test_a_theorem_must_hold_in_every_trial():
    gain = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 0.0, -0.1])
    assert assess_claim(gain).word == REPRODUCED
    assert assess_claim(gain, always=True)[:2] == (NOT_REPRODUCED, "in 9 of 10 trials")
    assert assess_claim(gain[:-1], always=True)[:2] == (REPRODUCED, "in 9 of 9 trials")


def test_a_gain_has_the_sign_of_what_is_better():
    np.testing.assert_array_equal(compute_gains("pll", [1.0, 2.0], [0.0, 3.0]), [1.0, -1.0])
    np.testing.assert_array_equal(compute_gains("nmse", [1.0, 2.0], [0.0, 3.0]), [-1.0, 1.0])
