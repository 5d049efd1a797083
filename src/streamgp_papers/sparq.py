"""The experiments of Mauduit, Berthier and Simonetto with time-varying Gaussian-process optimisation."""

from typing import Any

from streamgp_papers.kinds import Claim, Reproduction, Use
from streamgp_papers.moving import (
    AUTHORS_WINDOW,
    BASELINES,
    BOUND,
    GP,
    SPARQ,
    run_beyond,
    run_elsewhere,
    run_sensors,
    run_synthetic,
)
from streamgp_papers.verdicts import Figure

PAPER = "Mauduit, Berthier and Simonetto"
_PRINTED = {"R-GP-UCB": 1.34, "SW-GP-UCB": 1.18, "TV-GP-UCB": 1.8, "W-GP-UCB": 1.3}
_HYPER = (
    "Lengthscale 5.9, variance 0.248, noise variance 0.01 and mean 1.548 are those of greatest marginal likelihood "
    "on snapshots of the function, given to every Gaussian process; the ensemble gets none of them. Windows of 10 "
    "steps, eps = 0.03, gamma = 0.9. Of points with equal bounds one is taken at random."
)
_BETAS = (
    f"beta theory is Theorem 3.1's with delta = 0.05 and B = {BOUND:g}, beta log is 0.8 log(4 t), both times the "
    f"standard deviation."
)
_YARDSTICKS = (
    "'best fixed point' and 'best of the step before' know the function: the first is the one point that was best "
    "over the whole run, the second is what a choice made one step ago can reach at best."
)
_PER_EVALUATION = "per_evaluation is the mean regret of all evaluations, side queries among them."


_OURS = "B is not stated, and ours is 3.5; windows of 10 steps, eps = 0.03 and gamma = 0.9 are ours"
# How near an exponent of 1 is taken for linear.
NEAR_LINEAR = 0.05


def _claim(data: str, beta: str, doubt: str = "") -> Claim:
    others = tuple(f"{name}, beta {beta}" for name in BASELINES)
    text = f"{SPARQ} has the least regret, beta {beta}"
    return Claim(text, data, "regret", (f"{SPARQ}, beta {beta}",), others, doubt=doubt)


def _exponent(text: str, name: str, **changes: Any) -> Claim:
    return Claim(text, "moving-bump", "exponent", (f"{name}, beta theory",), doubt=_OURS, **changes)


SYNTHETIC = Reproduction(
    name="sparq-synthetic",
    source=f"{PAPER}, Figure 1",
    shows="Average regret on a function whose optimum moves, with side queries and without.",
    uses=(Use("moving-bump"),),
    work=run_synthetic,
    settings={},
    metrics=("regret", "exponent", "per_evaluation", "seconds"),
    figures={
        ("moving-bump", f"{name}, beta theory", "regret"): Figure(value, baseline=True, doubt=_OURS)
        for name, value in _PRINTED.items()
    },
    claims=(
        _claim("moving-bump", "theory", _OURS),
        _exponent(f"{SPARQ}'s average regret falls", SPARQ, number=1.0),
        _exponent(
            "Its regret grows no faster than T^1/2",
            SPARQ,
            number=0.5,
            open="the bound's own mean rises until step 2,148",
        ),
        *(
            _exponent(f"{name}'s regret is linear", name, number=1.0, within=NEAR_LINEAR)
            for name in BASELINES
            if name != GP
        ),
        _exponent(f"{GP}'s average regret grows", GP, number=1.0, worse=True),
    ),
    control="random point",
    trials=40,
    paper_trials=40,
    pictures=("dynamic_regret",),
    notes=(
        "regret is R_T / T, the mean over steps of how much the best point would have brought more; exponent is the "
        "slope of log R_t in log t from step 100 to the end (1: average regret stays as it is). " + _PER_EVALUATION,
        _HYPER,
        _BETAS,
        "The paper's figures are read as multiples of T, two of them being printed without it; its beta is that of "
        "the theorem, its B is not stated. SparQ's side queries: 6 log t past inputs by a determinantal point "
        "process (greedy start, 50 swaps), answered with the noise of an observation.",
        f"'of {AUTHORS_WINDOW}': the length of a block that R-GP-UCB's authors recommend, 12 eps^(-1/4).",
        _YARDSTICKS,
        "Average regret comes down to a floor and not to zero: a choice is made from what was known one step ago. "
        "Points chosen at random cost 1.35 a step, so that figures above that are those of methods that have learnt "
        "nothing: with the theorem's beta over so wide a domain they never stop exploring.",
        "The bound of Theorem 3.1 has no constants, so only its shape can be drawn (one at T): per step it rises "
        "until step 2,148, so that 500 steps cannot show it fall, nor that SparQ's regret is below it, as the "
        "paper's figure has it.",
        f"Linear is taken for an exponent of 1 within {NEAR_LINEAR:g}; average regret grows where it is above 1.",
    ),
)

SENSORS = Reproduction(
    name="sparq-sensors",
    source=f"{PAPER}, Figure 2",
    shows="Which station will read the most ozone, day by day.",
    uses=(Use("epa-ozone", ("ny-ozone", "midwest-ozone")),),
    work=run_sensors,
    settings={},
    metrics=("regret", "per_evaluation"),
    claims=tuple(_claim("epa-ozone", beta, "the paper's beta, the theorem's, was not run") for beta in ("log", "2")),
    control="random point",
    trials=40,
    paper_trials=40,
    pictures=("dynamic_regret",),
    notes=(
        "regret is the mean over days, in parts per billion, of how much more the highest station read; days without "
        "a reading at the chosen station do not count. " + _PER_EVALUATION,
        "One record is run again and again: seeds differ in ties, in the first station and in the readings that are "
        "asked for.",
        "Hyperparameters by marginal likelihood of what a method has seen, in days 5, 10 and 20 and every 25 from "
        "there, under weak priors; the paper's are fitted to all data. 'with random readings': as many extra "
        "readings a day as SparQ has, of stations drawn at random.",
        _YARDSTICKS,
    ),
)

BEYOND = Reproduction(
    name="sparq-beyond",
    source=f"{PAPER}, what it leaves open",
    shows="Equal numbers of evaluations, where side queries should be, a new optimum, a wide domain.",
    uses=(Use("moving-bump"), Use("moving-bump-new"), Use("moving-bump-wide")),
    work=run_beyond,
    settings={},
    metrics=("regret", "exponent", "per_evaluation", "seconds"),
    trials=10,
    paper_trials=0,
    pictures=("dynamic_regret",),
    notes=(
        "'with random', 'with grid', 'with maximisers': 6 log t fresh evaluations a step at random points, at evenly "
        "spaced ones, or at the method's own greatest upper bounds one after the other, kept by the method's own "
        "rule. TV- and W-GP-UCB then keep the newest 400 observations, GP-UCB 1,000.",
        "'grid', 'domain', 'random', 'maximisers' after SparQ-GP-UCB: where its side queries are, in place of past "
        "inputs. 'reuse': answers stay and age. '8 a step': that many on average, where they inform most.",
        _HYPER,
        _BETAS,
        _YARDSTICKS,
    ),
)

ELSEWHERE = Reproduction(
    name="sparq-elsewhere",
    source=f"{PAPER}, what it leaves open",
    shows="Faster drifts, and the gains of a controller of a motor whose load changes.",
    uses=(Use("moving-bump-0.3"), Use("moving-bump-1"), Use("moving-motor")),
    work=run_elsewhere,
    settings={},
    metrics=("regret", "exponent", "per_evaluation", "seconds"),
    trials=5,
    paper_trials=0,
    pictures=("dynamic_regret",),
    notes=(
        _HYPER + " On the motor every method fits its own, by marginal likelihood of what it has seen.",
        "'with grid' and SparQ-GP-UCB's ', grid': 6 log t fresh evaluations a step, spread evenly. 'reuse': answers "
        "stay and age.",
        _YARDSTICKS,
    ),
)
