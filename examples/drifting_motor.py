"""Tuning a controller whose load changes: streamgp keeps the gains of a motor good while its inertia swings 16-fold.

``python examples/drifting_motor.py`` plays 300 runs of one second each with gains that the optimiser asks for, beside
gains that stay as a good engineer might have set them on the first day, and draws what happened (motor.png).
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from streamgp import TimeVaryingOptimizer
from streamgp.bandits.problems import Motor
from streamgp.progress import progress_bar

motor = Motor()
SPACE = {  # what may be tuned: names, ranges, log scales
    "proportional": motor.space.parameters[0],
    "integral": motor.space.parameters[1],
}


def run_motor(gains: dict[str, float], run: int, rng: np.random.Generator) -> float:
    """Return the reward of one run, as a real machine would give it: once, and with noise."""
    u = motor.space.encode(gains)
    return float(motor.value(u[None], run)[0] + motor.noise_std * rng.normal())


def tune(method: str, runs: int, seed: int = 0) -> tuple[list[dict[str, float]], np.ndarray]:
    """Ask, run, tell; return the gains of every run, and how much better the best gains of that run would be."""
    rng = np.random.default_rng(seed)
    optimizer = TimeVaryingOptimizer(SPACE, method, random_state=seed)
    asked, regret = [], []
    with progress_bar(method, runs) as bar:
        for run in range(1, runs + 1):
            gains = optimizer.ask()
            optimizer.tell(gains, run_motor(gains, run, rng))
            asked.append(gains)
            regret.append(motor.best(run) - float(motor.value(motor.space.encode(gains)[None], run)[0]))
            bar.at(run)
    return asked, np.array(regret)


def best_gains(run: int) -> dict[str, float]:
    """Return the best gains of a run on a grid, which only the simulator knows."""
    grid = np.stack(np.meshgrid(np.linspace(0, 1, 61), np.linspace(0, 1, 61)), -1).reshape(-1, 2)
    return motor.space.decode(grid[np.argmax(motor.value(grid, run))])


def draw(asked: list[dict[str, float]], regret: np.ndarray, fixed: np.ndarray, file: Path) -> None:
    """Draw the load, the gains that were asked for beside the best ones, and what both choices cost."""
    runs = np.arange(1, len(asked) + 1)
    some = runs[:: max(1, len(runs) // 60)]
    best = [best_gains(int(run)) for run in some]
    figure = Figure(figsize=(9, 7), layout="constrained")
    load, proportional, integral, cost = figure.subplots(4, 1, sharex=True)
    load.plot(runs, [motor.inertia(int(run)) for run in runs], color="#555555")
    load.set_ylabel("inertia")
    load.set_yscale("log")
    for ax, name in ((proportional, "proportional"), (integral, "integral")):
        ax.plot(runs, [gains[name] for gains in asked], ".", color="#332288", markersize=4, label="asked for")
        ax.plot(some, [gains[name] for gains in best], color="#cc6677", label="best of the run")
        ax.set_yscale("log")
        ax.set_ylabel(f"{name} gain")
    width = min(20, len(runs))
    for values, colour, label in ((regret, "#332288", "streamgp"), (fixed, "#117733", "gains of the first day")):
        moving = np.convolve(values, np.ones(width) / width, mode="valid")
        cost.plot(runs[width - 1 :], moving, color=colour, label=label)
    cost.set_ylabel(f"regret, mean of {width}")
    cost.set_xlabel("run")
    cost.set_ylim(bottom=0.0)
    for ax in (load, proportional, integral, cost):
        ax.spines[["top", "right"]].set_visible(False)
    proportional.legend(frameon=False, ncols=2)
    cost.legend(frameon=False, ncols=2)
    figure.savefig(file, dpi=130)


def main() -> None:
    """Play, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--method", default="tv-gp-ucb")
    parser.add_argument("--out", type=Path, default=Path("motor.png"))
    arguments = parser.parse_args()
    asked, regret = tune(arguments.method, arguments.runs)
    first_day = motor.space.encode(best_gains(1))[None]
    fixed = np.array(
        [motor.best(run) - float(motor.value(first_day, run)[0]) for run in range(1, arguments.runs + 1)]
    )
    print(f"regret per run: {regret.mean():.3f} tuned, {fixed.mean():.3f} with the best gains of the first day")
    late = arguments.runs // 2
    print(f"in the second half: {regret[late:].mean():.3f} tuned, {fixed[late:].mean():.3f} not")
    draw(asked, regret, fixed, arguments.out)
    print(f"picture: {arguments.out}")


if __name__ == "__main__":
    main()
