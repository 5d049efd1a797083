"""The pages of docs/reference/api, a directive for each public name: ``python -m benchmarks.pages.api``."""

import inspect
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import streamgp
from benchmarks.common import markdown
from benchmarks.common.paths import DOCS

FOLDER = DOCS / "reference" / "api"
REST = "evaluation"  # what streamgp exports and no other page has

# Of each page its title, what it says first, the names of `streamgp` on it, and whole modules.
PAGES: dict[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]] = {
    "regressor": (
        "StreamingGPRegressor",
        "Numbers. [Which settings to choose](../../how-to/choosing-settings.md).",
        (
            "streamgp.StreamingGPRegressor",
            "streamgp.estimators.prediction.Prediction",
            "streamgp.estimators.explanations.Explanation",
        ),
        (),
    ),
    "classifier": (
        "StreamingGPClassifier",
        "Classes. [How to classify](../../how-to/rare-classes.md).",
        ("streamgp.StreamingGPClassifier",),
        (),
    ),
    "counts": (
        "StreamingGPCountRegressor",
        "Counts. [How to predict counts](../../how-to/counts.md).",
        ("streamgp.StreamingGPCountRegressor",),
        (),
    ),
    "ordinal": (
        "StreamingGPOrdinal",
        "Ordered grades. [How to predict grades](../../how-to/counts.md#grades).",
        ("streamgp.StreamingGPOrdinal",),
        (),
    ),
    "splitting": (
        "SplittingGPRegressor",
        "Sparse Gaussian processes that split. [What they are worth](../../research/local.md).",
        ("streamgp.SplittingGPRegressor",),
        (),
    ),
    "fleet": (
        "StreamingGPFleet",
        "A model for each of many keys. [How to run a fleet](../../how-to/fleets.md).",
        ("streamgp.StreamingGPFleet", "streamgp.fleet.FleetEvaluation", "streamgp.fleet.fleet_alarms"),
        (),
    ),
    "lvm": (
        "StreamingGPLVM",
        "Coordinates for rows of many numbers. [How to embed rows](../../how-to/embedding.md).",
        ("streamgp.StreamingGPLVM",),
        ("streamgp.latent",),
    ),
    "optimizer": (
        "TimeVaryingOptimizer",
        "Ask and tell. [How to tune a system that drifts](../../how-to/tuning.md).",
        ("streamgp.TimeVaryingOptimizer",),
        ("streamgp.bandits",),
    ),
    "evaluation": (
        "Evaluation, alarms, errors",
        "Test, then train, and what comes of it. [How to look at an evaluation](../../how-to/evaluations.md).",
        ("streamgp.evaluate", "streamgp.Evaluation", "streamgp.compare", "streamgp.Comparison", "streamgp.Monitor"),
        ("streamgp.evaluation", "streamgp.session"),
    ),
    "regret": (
        "Regret",
        "How far a run was from the best in hindsight, and bounds. [What was measured](../../research/regret.md).",
        (),
        ("streamgp.research.regret",),
    ),
    "metrics": (
        "Scores of arrays",
        "Proper scores of any predictions. [How to compare](../../how-to/baselines.md).",
        (),
        ("streamgp.evaluation.metrics",),
    ),
    "adapters": (
        "Adapters",
        "The estimators with river's interface (extra `river`). [How to use them](../../how-to/river.md).",
        (),
        ("streamgp.adapters.river",),
    ),
    "client": (
        "Client of the service",
        "The live service from Python (extra `serve`). [How to run the service](../../how-to/service.md).",
        (),
        ("streamgp.client",),
    ),
    "bases": (
        "Bases",
        "What an expert can be linear in. [In plain words](../models.md#bases).",
        (),
        ("streamgp.bases",),
    ),
    "filters": (
        "Filters",
        "How the belief of one expert follows its rows. [In plain words](../../explanation/knobs.md).",
        (),
        (
            "streamgp.filters.dynamics",
            "streamgp.filters.noise",
            "streamgp.filters.guard",
            "streamgp.filters.kalman",
            "streamgp.filters.laplace",
        ),
    ),
    "weights": (
        "Weights",
        "How experts are weighed. [In plain words](../weight-rules.md).",
        (),
        ("streamgp.weights",),
    ),
    "likelihoods": (
        "Likelihoods",
        "The laws of targets. [What is exact](../../research/labels.md).",
        (),
        ("streamgp.likelihoods",),
    ),
    "core": (
        "Functional core",
        "The contract of a model, files and generated streams. [How to add a model](../../contributing/family.md).",
        (),
        ("streamgp.models.contract", "streamgp.conformance", "streamgp.table", "streamgp.numerics.checkpoint"),
    ),
}


def pages() -> dict[Path, str]:
    """Return all pages: an index, and one for each group of names."""
    found, seen = {}, {name for *_, names, _ in PAGES.values() for name in names}
    rest = tuple(name for name in (f"streamgp.{name}" for name in streamgp.__all__) if name not in seen)
    index = [
        "# Python API",
        "",
        "Every public name. The names of the first group are imported from `streamgp` itself.",
        "",
    ]
    index += ["| name | what it is |", "|---|---|"]
    shown = {id(_object(name)) for name in (*seen, *rest)}
    for page, (title, first, names, modules) in PAGES.items():
        lines = [f"# {title}", "", first, ""]
        names += rest if page == REST else ()
        for name in names:
            lines += [f"::: {name}", ""]
            index.append(f"| [`{name.rpartition('.')[2]}`]({page}.md#{name}) | {_summary(name)} |")
        for module in modules:
            own = [name for name in public(module) if id(_object(f"{module}.{name}")) not in shown]
            shown |= {id(_object(f"{module}.{name}")) for name in own if callable(_object(f"{module}.{name}"))}
            lines += [f"## {module}", "", _summary(module), ""]
            index.append(f"| [`{module}`]({page}.md#{module.replace('.', '')}) | {_summary(module)} |")
            for name in own:
                lines += [f"::: {_path(module, name)}", "    options:", "      heading_level: 3", ""]
        found[FOLDER / f"{page}.md"] = "\n".join(lines)
    found[FOLDER / "index.md"] = "\n".join([*index, ""])
    return found


def public(module: str) -> list[str]:
    """Return the public names of a module: those that it lists or, where it lists none, defines."""
    home = import_module(module)
    own = (name for name, value in vars(home).items() if _defined(value, module) and not name.startswith("_"))
    return list(getattr(home, "__all__", own))


def _defined(value: Any, module: str) -> bool:
    return (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == module


def _object(name: str) -> Any:
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


def _path(module: str, name: str) -> str:
    """Return where a name is found in the source: a function may have the name of the module that it is in."""
    value = _object(f"{module}.{name}")
    if hasattr(import_module(module), "__path__") and find_spec(f"{module}.{name}") is not None:
        return f"{value.__module__}.{name}"
    return f"{module}.{name}"


def _summary(name: str) -> str:
    try:
        value = import_module(name)
    except ImportError:
        value = _object(name)
    text = (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ")
    return text.replace("|", "\\|").replace("``", "`")


if __name__ == "__main__":
    markdown.write(pages())
