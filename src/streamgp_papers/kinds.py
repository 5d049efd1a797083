"""What a reproduction is made of."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from streamgp.app.outputs import RunError
from streamgp_papers.datasets import DATASETS, digest, is_at_hand
from streamgp_papers.runner import Job
from streamgp_papers.verdicts import Figure


@dataclass(frozen=True)
class Use:
    """A data set of the paper, and those that are shown where it is not at hand."""

    data: str
    stand_ins: tuple[str, ...] = ()


@dataclass(frozen=True)
class Claim:
    """A statement of the paper: on a data set, the best of some models has a better score than the best of others.

    With `within`, that the scores of the models `ahead` are alike instead: no further apart than this. With `beats`,
    that the best of them is better than this number. With `always`, it is a theorem: it must hold in every trial.
    """

    text: str
    data: str
    metric: str
    ahead: tuple[str, ...]
    behind: tuple[str, ...] = ()
    within: float | None = None
    beats: float | None = None
    always: bool = False


@dataclass(frozen=True)
class Reproduction:
    """A table or figure of a paper.

    Attributes
    ----------
    name
        As it is typed.
    source
        Where it is printed.
    shows
        What it shows, in one sentence.
    uses
        Its data sets.
    work
        Does one run: a function of a data set, a seed, ``directory``, ``rows`` and the `settings`.
    settings
        What else `work` is given, the same in all runs.
    metrics
        The scores to print, in this order.
    figures
        What the paper prints, by data set, model and score.
    claims
        What it says.
    trials, paper_trials
        How many seeds unless the user says otherwise, and in the paper.
    pictures
        Kinds of charts to draw.
    notes
        What a reader must know, sentence by sentence.
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
    notes: tuple[str, ...] = ()


class Shown(NamedTuple):
    """A data set that is run, and the paper's one that it stands for: itself, or one that is not at hand."""

    data: str
    stands_for: str

    @property
    def obstacle(self) -> str | None:
        """Why figures on it cannot be compared with the paper's."""
        return None if self.data == self.stands_for else f"stands in for {DATASETS[self.stands_for].title}"


def choose_data(
    reproduction: Reproduction, directory: Path | None, only: Sequence[str] | None = None
) -> tuple[list[Shown], list[str]]:
    """The data sets to run, and the names of those of the paper that are not at hand.

    Raises
    ------
    RunError
        If `only` names a data set that has no place in this reproduction.
    """
    known = [name for use in reproduction.uses for name in (use.data, *use.stand_ins)]
    for name in only or ():
        if name not in known:
            raise RunError(f"--sets: expected some of {', '.join(dict.fromkeys(known))}, got {name!r}")
    shown, missing = [], []
    for use in reproduction.uses:
        at_hand = is_at_hand(use.data, directory)
        # A stand-in takes the place of what is not at hand, or is asked for by its name.
        stand_ins = [name for name in use.stand_ins if not at_hand or name in (only or ())]
        candidates = [use.data] * at_hand + [name for name in stand_ins if is_at_hand(name, directory)]
        if not at_hand and (not only or {use.data, *use.stand_ins} & set(only)):
            missing.append(use.data)
        shown += [Shown(name, use.data) for name in candidates if not only or {name, use.data} & set(only)]
    return shown, missing


def make_jobs(
    reproduction: Reproduction, shown: Sequence[Shown], directory: Path | None, trials: int, rows: int | None
) -> list[Job]:
    """The runs, seed by seed, so that an early stop leaves every data set with about as many."""
    settings = {"directory": directory, "rows": rows, **reproduction.settings}
    plan = hashlib.sha256(repr(reproduction.settings).encode()).hexdigest()[:12]
    made_of = {one.data: f"{digest(one.data, directory)} {plan}" for one in shown}
    return [
        Job(name, seed, reproduction.work, settings, of) for seed in range(trials) for name, of in made_of.items()
    ]
