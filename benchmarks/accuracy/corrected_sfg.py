"""What choosing a few of many kernels can do: SFG-MKL put right, beside Raker with as many kernels a row.

``python -m benchmarks.accuracy.corrected_sfg --data DIR [--name NAME --seeds N]`` writes
``results/corrected_sfg.json``, where what has been scored stays; ``python -m benchmarks.pages.corrected_sfg`` renders
the table of docs/research/multikernel.md.

All learners have the dictionary and the scaling of Ghari and Shen (2021): 41 kernels of 100 random features, targets
in [0, 1], inputs divided by the length of the longest row; that scaling looks ahead, as in their tables. A prediction
is made before its target is seen. Settings were chosen on the first 6,000 and 1,200 rows of `CHOOSING`, in order and
shuffled, with four seeds; `CONFIRMING` was run once after that. Three controls were added later: Raker with one of
steps and weights corrected, and the best five kernels in hindsight.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
import typer
from jaxtyping import Float, Int

from benchmarks.common.paths import RESULTS_DIR
from streamgp.research.annex import SFG_MKL_DICTIONARY
from streamgp_papers.authors_run import AS_RUN, PATH, PRINTED, Departures, predicted_by_sfg
from streamgp_papers.many_kernels import FEATURES, NEIGHBOURS, PENALTY

RESULTS = RESULTS_DIR / "corrected_sfg.json"
# The file, the target's column and columns to leave out.
SETS = {
    "Air quality": ("air_quality_raker", "y", ()),
    "Twitter": ("twitter_buzz", "y", ()),
    "Tom's hardware": ("toms_hardware", "y", ()),
    "Airfoil": ("airfoil", "y", ()),
    "Concrete": ("concrete", "y", ()),
    "Naval": ("naval", "x0", ("y", "y2")),
    "Wine": ("wine_white", "y", ()),
    "Energy": ("energy_raker", "y", ()),
}
CHOOSING = ("Air quality", "Twitter", "Tom's hardware")
CONFIRMING = ("Airfoil", "Concrete", "Naval", "Wine", "Energy")
ORDERS = ("in order", "shuffled")
KERNELS = len(SFG_MKL_DICTIONARY)
SPREAD = tuple(range(0, KERNELS, (KERNELS - 1) // (NEIGHBOURS - 1)))
STEP = 0.2  # of the corrected learners; features have length 1, so that a step of 1/2 fits the row
MEMORY = 100  # rows over which losses are averaged, and between two changes of the kernels evaluated
SHARPNESS = 20.0  # weights are the averages of losses to minus this power
TURN = 50  # rows that each neighbourhood has where they take turns


@dataclass(frozen=True)
class Plan:
    """A learner of several kernels.

    Attributes
    ----------
    kernels
        Those evaluated at the first row: given ones, ``"drawn"`` or, in hindsight, those around the best
        (``"around"``) and those that are best together, found one after the other (``"together"``).
    corrected_steps
        Gradient steps of `STEP`, rather than of 1 / sqrt(T) for T rows.
    corrected_weights
        Weights by the average of recent losses, rather than exponential weights of their sum at 1 / sqrt(T).
    moves
        Every `MEMORY` rows: the worst kernel gives its place to one between the best and a neighbour of it
        (``"bisect"``), or all to the nearest of the best (``"nearest"``); ``"turns"`` is the latter after `TURN`
        rows for each neighbourhood in turn.
    on_trial
        Whether a kernel that comes in has the average loss of the worst, as if of `MEMORY` rows, to begin with.
    """

    kernels: tuple[int, ...] | Literal["drawn", "around", "together"] = SPREAD
    corrected_steps: bool = True
    corrected_weights: bool = True
    moves: Literal["none", "bisect", "nearest", "turns"] = "none"
    on_trial: bool = True


CORRECTED = Plan(moves="bisect")
ALL = tuple(range(KERNELS))
PLANS = {
    "Raker, 41 kernels": Plan(ALL, corrected_steps=False, corrected_weights=False),
    "Raker, 5 spread": Plan(corrected_steps=False, corrected_weights=False),
    "Raker, 5 drawn": Plan("drawn", corrected_steps=False, corrected_weights=False),
    "Corrected SFG": CORRECTED,
    "... with Raker's steps": replace(CORRECTED, corrected_steps=False),
    "... with Raker's weights": replace(CORRECTED, corrected_weights=False),
    "... no trial for newcomers": replace(CORRECTED, on_trial=False),
    "... five nearest to the best": replace(CORRECTED, moves="nearest"),
    "... neighbourhoods in turn, then those": replace(CORRECTED, moves="turns"),
    "Raker, 5 spread, steps corrected": Plan(corrected_weights=False),
    "Raker, 5 spread, weights corrected": Plan(corrected_steps=False),
    "Raker, 5 spread, both corrected": Plan(),
    "Raker, 5 drawn, both corrected": Plan("drawn"),
    "Raker, 5 around the best in hindsight, both": Plan("around"),
    "Raker, best 5 in hindsight, both": Plan("together"),
    "Raker, 41 kernels, both corrected": Plan(ALL),
}
# The rules of the paper: as printed, without any division by probabilities, and as its authors ran them.
PAPER = {
    "SFG-MKL, as printed": PRINTED,
    "SFG-MKL, nothing divided": replace(PRINTED, clips=(1.0, 1.0)),
    "SFG-MKL, as run": PATH[AS_RUN],
}


@dataclass(frozen=True)
class Streams:
    """One data set in an order for each seed, with random features for each."""

    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    order: Int[np.ndarray, "s n"]
    frequencies: Float[np.ndarray, "s k f d"]


def load(directory: Path, name: str, shuffled: bool, seeds: int) -> Streams:
    """Read a data set, scaled as in the paper."""
    file, target, drop = SETS[name]
    frame = pl.read_parquet(directory / f"{file}.parquet").drop(drop).cast(pl.Float64)
    X, y = frame.drop(target).to_numpy(), frame[target].to_numpy()
    X, y = X / np.linalg.norm(X, axis=1).max(), (y - y.min()) / np.ptp(y)
    scales = np.asarray(SFG_MKL_DICTIONARY)[:, None, None]
    order, frequencies = [], []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        frequencies.append(rng.normal(size=(KERNELS, FEATURES // 2, X.shape[1])) / scales)
        order.append(rng.permutation(len(y)) if shuffled else np.arange(len(y)))
    return Streams(X, y, np.stack(order), np.stack(frequencies))


class Learners:
    """A learner for each seed, as a plan says, in arrays over the seeds."""

    def __init__(self, plan: Plan, streams: Streams, first: Int[np.ndarray, "s m"]) -> None:
        self.plan, self.streams = plan, streams
        seeds, self.rows = streams.order.shape
        self._seed = np.arange(seeds)[:, None]
        self.theta = np.zeros((seeds, KERNELS, FEATURES))
        # Sums of losses over all rows, and with the newest counting most; the rows in the latter.
        self.total, self.recent, self.counted = np.zeros((3, seeds, KERNELS))
        self.each = np.zeros(first.shape)  # what each kernel predicted of the last row
        self._evaluate(first)

    def _evaluate(self, which: Int[np.ndarray, "s m"]) -> None:
        """Take these kernels from now on."""
        self.which = which
        chosen = self.streams.frequencies[self._seed, which]
        self._frequencies = chosen.reshape(len(which), -1, chosen.shape[-1])

    def _of(self, each: Float[np.ndarray, "s k"]) -> Float[np.ndarray, "s m"]:
        return each[self._seed, self.which]

    def _averages(self) -> Float[np.ndarray, "s m"]:
        return self._of(self.recent) / np.maximum(self._of(self.counted), 1e-12)

    def weights(self) -> Float[np.ndarray, "s m"]:
        if self.plan.corrected_weights:
            log_w = -SHARPNESS * np.log(np.maximum(self._averages(), 1e-300))
            # A kernel without a loss has no say, unless none has one.
            log_w = np.where(self._of(self.counted) > 0.0, log_w, -1e9)
        else:
            log_w = -(self.rows**-0.5) * self._of(self.total)
        w = np.exp(log_w - log_w.max(1, keepdims=True))
        return w / w.sum(1, keepdims=True)

    def step(self, t: int) -> Float[np.ndarray, " s"]:
        """Predict row t, then learn it; return the squared errors of the predictions."""
        row = self.streams.order[:, t]
        x, y = self.streams.X[row], self.streams.y[row]
        waves = (self._frequencies @ x[:, :, None]).reshape(*self.which.shape, -1)
        z = np.concatenate([np.sin(waves), np.cos(waves)], axis=2) / np.sqrt(waves.shape[2])
        theta = self.theta[self._seed, self.which]
        self.each = each = np.einsum("skf,skf->sk", z, theta)
        predicted = np.sum(self.weights() * each, axis=1)
        error = each - y[:, None]
        eta = STEP if self.plan.corrected_steps else self.rows**-0.5
        self.theta[self._seed, self.which] = theta - 2.0 * eta * (error[:, :, None] * z + PENALTY * theta)
        self._count(np.square(error), PENALTY * np.sum(np.square(theta), axis=2))
        return np.square(predicted - y)

    def _count(self, losses: Float[np.ndarray, "s m"], penalties: Float[np.ndarray, "s m"]) -> None:
        at, keep = (self._seed, self.which), 1.0 - 1.0 / MEMORY
        self.total[at] += losses + penalties
        self.recent[at] = keep * self.recent[at] + losses
        self.counted[at] = keep * self.counted[at] + 1.0

    def move(self, t: int) -> None:
        """Take other kernels before row t, if it is time."""
        moves = self.plan.moves
        exploring = TURN * len(_CENTRES) if moves == "turns" else 0
        if t < exploring:
            if t % TURN == 0:
                self._evaluate(np.tile(around(_CENTRES[t // TURN]), (len(self.which), 1)))
        elif moves != "none" and t and (t - exploring) % MEMORY == 0:
            if t == exploring:
                self._evaluate(np.tile(np.arange(KERNELS), (len(self.which), 1)))
            averages = self._averages()
            choose = bisect if moves == "bisect" else _nearest
            pairs = zip(self.which, averages, strict=True)
            self._replace(np.stack([choose(which, average) for which, average in pairs]), averages)

    def _replace(self, new: Int[np.ndarray, "s m"], averages: Float[np.ndarray, "s o"]) -> None:
        came = ~(new[:, :, None] == self.which[:, None, :]).any(2)
        self._evaluate(new)
        if self.plan.on_trial:
            at = (self._seed, new)
            worst = MEMORY * averages.max(1, keepdims=True)
            self.recent[at] = np.where(came, worst, self.recent[at])
            self.counted[at] = np.where(came, MEMORY, self.counted[at])


def bisect(which: Int[np.ndarray, " m"], averages: Float[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
    """Give the place of the worst kernel to one halfway between the best and a neighbour, the better one first."""
    order = np.argsort(which)
    which, averages = which[order], averages[order]
    best, worst = int(np.argmin(averages)), int(np.argmax(averages))
    beside = [i for i in (best - 1, best + 1) if 0 <= i < len(which) and abs(which[i] - which[best]) > 1]
    if beside:
        nearer = min(beside, key=lambda i: averages[i])
        which[worst] = (which[best] + which[nearer]) // 2
    return which


def around(centre: int) -> Int[np.ndarray, " m"]:
    """Return a kernel and those nearest to it in the logarithm of the lengthscale."""
    return np.clip(centre - NEIGHBOURS // 2, 0, KERNELS - NEIGHBOURS) + np.arange(NEIGHBOURS)


def _nearest(which: Int[np.ndarray, " m"], averages: Float[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
    return around(int(which[np.argmin(averages)]))


# Every kernel is in the neighbourhood of one of these.
_CENTRES = tuple(range(NEIGHBOURS // 2, KERNELS + NEIGHBOURS // 2, NEIGHBOURS))


def run(plan: Plan, streams: Streams) -> Float[np.ndarray, " s"]:
    """Predict and learn every row; return 1,000 times the mean squared errors."""
    seeds, rows = streams.order.shape
    if plan.kernels == "drawn":
        rngs = (np.random.default_rng([seed, 1]) for seed in range(seeds))
        first = np.stack([rng.choice(KERNELS, NEIGHBOURS, replace=False) for rng in rngs])
    elif plan.kernels in ("around", "together"):
        first = _in_hindsight(streams, together=plan.kernels == "together")
    else:
        first = np.tile(np.asarray(plan.kernels), (seeds, 1))
    learners, squares = Learners(plan, streams, first), np.zeros(seeds)
    for t in range(rows):
        learners.move(t)
        squares += learners.step(t)
    return 1e3 * squares / rows


def _in_hindsight(streams: Streams, *, together: bool) -> Int[np.ndarray, "s m"]:
    """Find the kernels around that of the least error over all rows, or those whose weighted sum has it."""
    seeds, rows = streams.order.shape
    learners = Learners(Plan(ALL), streams, np.tile(np.asarray(ALL), (seeds, 1)))
    predicted, weights = np.empty((2, seeds, rows, KERNELS))
    for t in range(rows):
        # No weight is zero, so that any few of them can be compared.
        weights[:, t] = np.maximum(learners.weights(), 1e-200)
        learners.step(t)
        predicted[:, t] = learners.each
    targets = streams.y[streams.order]
    errors = np.mean(np.square(predicted - targets[:, :, None]), axis=1)
    if not together:
        return np.stack([around(int(best)) for best in errors.argmin(1)])
    return np.stack([_together(*each) for each in zip(predicted, weights, targets, strict=True)])


def _together(
    predicted: Float[np.ndarray, "n k"], weights: Float[np.ndarray, "n k"], y: Float[np.ndarray, " n"]
) -> Int[np.ndarray, " m"]:
    """Add kernel after kernel, each time the one with which the error over all rows is least."""
    which: list[int] = []
    above, below = np.zeros((len(y), 1)), np.zeros((len(y), 1))
    for _ in range(NEIGHBOURS):
        errors = np.mean(np.square((above + weights * predicted) / (below + weights) - y[:, None]), axis=0)
        errors[which] = np.inf
        which.append(int(np.argmin(errors)))
        above, below = above + (weights * predicted)[:, which[-1:]], below + weights[:, which[-1:]]
    return np.asarray(which)


def run_set(streams: Streams, found: dict[str, list[float]]) -> dict[str, list[float]]:
    """Score every learner that has not been scored yet, by seed."""
    scores: dict[str, Float[np.ndarray, " s"]] = {}
    for name, plan in PLANS.items():
        if name not in found:
            scores[name] = run(plan, streams)
    for name, departures in PAPER.items():
        if name not in found:
            scores[name] = _run_paper(streams, departures)
    rounded = {name: [round(float(score), 4) for score in each] for name, each in scores.items()}
    return {name: (found | rounded)[name] for name in (*PLANS, *PAPER)}


def _run_paper(streams: Streams, departures: Departures) -> Float[np.ndarray, " s"]:
    errors = []
    for seed, (order, frequencies) in enumerate(zip(streams.order, streams.frequencies, strict=True)):
        X, y = streams.X[order], streams.y[order]
        predicted = predicted_by_sfg(X, y, frequencies, departures, np.random.default_rng([seed, 2]))
        errors.append(1e3 * np.mean(np.square(predicted - y)))
    return np.asarray(errors)


def main(
    data: Annotated[Path, typer.Option(help="Directory of the Parquet files.")],
    name: Annotated[list[str] | None, typer.Option(help="Data sets; all if none is named.")] = None,
    seeds: Annotated[int, typer.Option(help="Seeds of each run.")] = 10,
) -> None:
    """Run all learners on the sets and keep what they found."""
    stored: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for each in name or SETS:
        for order in ORDERS:
            streams = load(data, each, order == "shuffled", seeds)
            rows, inputs = streams.X.shape
            scores = run_set(streams, stored.get(f"{each}, {order}", {}).get("mse", {}))
            stored[f"{each}, {order}"] = {"rows": rows, "inputs": inputs, "mse": scores}
            print(each, order, {key: round(float(np.mean(value)), 2) for key, value in scores.items()}, flush=True)
            RESULTS.write_text(json.dumps(stored) + "\n")


if __name__ == "__main__":
    typer.run(main)
