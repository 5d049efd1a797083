"""The definition of a reproduction, and the choice of its data sets and trials."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from streamgp.app.outputs import RunError
from streamgp_papers.data_files import compute_digest, is_available
from streamgp_papers.datasets import DATASETS
from streamgp_papers.runner import Trial
from streamgp_papers.verdicts import Figure


@dataclass(frozen=True)
class Use:
    """A data set of the paper, and those that replace it where it is not available."""

    data: str
    stand_ins: tuple[str, ...] = ()


@dataclass(frozen=True)
class Claim:
    """A statement of the paper: on a data set, the best of some models has a better score than the best of others.

    Attributes
    ----------
    text, data, metric
        The statement in words, its data set and its score.
    ahead, behind
        The models that are better, and those they are better than.
    within
        The statement is instead that those `ahead` are no further apart than this; with `behind`, that the best of
        those ahead is behind the best of the others by no more; with `number`, that it is no further from that.
    number
        The best of those ahead is better than this number or, with `worse`, worse.
    times
        The score of those ahead is better even so many times as large.
    always
        It is a theorem, and must hold in every trial.
    doubt
        The reason why our runs and the paper's cannot be compared.
    open
        The reason why no such runs can decide it, whatever they show.
    """

    text: str
    data: str
    metric: str
    ahead: tuple[str, ...]
    behind: tuple[str, ...] = ()
    within: float | None = None
    number: float | None = None
    worse: bool = False
    times: float = 1.0
    always: bool = False
    doubt: str = ""
    open: str = ""


@dataclass(frozen=True)
class Reproduction:
    """A table or figure of a paper.

    Attributes
    ----------
    name
        Its name in the command.
    source
        The paper, and the place in it.
    shows
        Its content, in one sentence.
    uses
        Its data sets.
    work
        Does one run: a function of a data set, a seed, ``directory``, ``rows`` and the `settings`.
    settings
        Further arguments of `work`, the same in all runs. A digest of their ``repr`` is stored with every run:
        renaming one makes stored runs look outdated.
    metrics
        The scores to print, in this order.
    figures
        The printed numbers, by data set, model and score.
    claims
        The paper's statements.
    trials, paper_trials
        The default number of seeds, and the number in the paper.
    pictures
        Kinds of charts to draw.
    obstacle
        The reason why no figure can be compared with the paper's; empty where there is none.
    beside
        For a score of the statements and figures, another one whose finding is shown as well.
    control
        A model that learns nothing: to win over one that is no better proves nothing.
    labels
        Names to print in place of those in stored runs.
    notes
        Remarks for the reader, sentence by sentence.
    """

    name: str
    source: str
    shows: str
    uses: tuple[Use, ...]
    work: Callable[..., dict[str, Any]]
    settings: Mapping[str, Any]
    metrics: tuple[str, ...] = ("nmse", "pll", "pll_moment")
    figures: Mapping[tuple[str, str, str], Figure] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    trials: int = 10
    paper_trials: int = 10
    pictures: tuple[str, ...] = ("curves",)
    obstacle: str = ""
    beside: Mapping[str, str] = field(default_factory=dict)
    control: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Shown(NamedTuple):
    """A data set that is run, and the paper's one that it stands for: itself, or one that is not available."""

    data: str
    stands_for: str

    @property
    def obstacle(self) -> str | None:
        """Return the reason why figures on it cannot be compared with the paper's, if there is one."""
        return None if self.data == self.stands_for else f"stands in for {DATASETS[self.stands_for].title}"


def choose_data(
    reproduction: Reproduction, directory: Path | None, only: Sequence[str] | None = None
) -> tuple[list[Shown], list[str]]:
    """Choose the data sets to run; return them, and the names of those of the paper that are not available.

    Raises
    ------
    RunError
        If `only` names a data set that this reproduction does not use.
    """
    known = [name for use in reproduction.uses for name in (use.data, *use.stand_ins)]
    for name in only or ():
        if name not in known:
            raise RunError(f"--sets: expected some of {', '.join(dict.fromkeys(known))}, got {name!r}")
    shown, missing = [], []
    for use in reproduction.uses:
        available = is_available(use.data, directory)
        # A stand-in replaces a data set that is not available, or is asked for by its name.
        stand_ins = [name for name in use.stand_ins if not available or name in (only or ())]
        candidates = [use.data] * available + [name for name in stand_ins if is_available(name, directory)]
        if not available and (not only or {use.data, *use.stand_ins} & set(only)):
            missing.append(use.data)
        shown += [Shown(name, use.data) for name in candidates if not only or {name, use.data} & set(only)]
    return shown, missing


def plan_trials(
    reproduction: Reproduction, shown: Sequence[Shown], directory: Path | None, trials: int, rows: int | None
) -> list[Trial]:
    """List the trials, seed by seed, so that an early stop leaves every data set with about as many."""
    settings = {"directory": directory, "rows": rows, **reproduction.settings}
    settings_digest = hashlib.sha256(repr(reproduction.settings).encode()).hexdigest()[:12]
    made_of = {one.data: f"{compute_digest(one.data, directory)} {settings_digest}" for one in shown}
    return [
        Trial(name, seed, reproduction.work, settings, of) for seed in range(trials) for name, of in made_of.items()
    ]
