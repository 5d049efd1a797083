"""The models by name: which bases, which dynamics, which weights (Lu et al. 2022; Waxman and Djuric 2024)."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import jax
import numpy as np

from streamgp import weights as rules
from streamgp.bases import BASES
from streamgp.filters.dynamics import parse
from streamgp.filters.noise import parse as parse_noise
from streamgp.models.multikernel.family import METHODS as MULTIKERNEL
from streamgp.models.sparse import COMBINATIONS
from streamgp.models.sparse import METHODS as SPARSE
from streamgp.models.spec import LIKELIHOODS, Spec

# IE-GP's dictionary: isotropic squared-exponential kernels with squared lengthscales 10^k.
IE_GP_DICTIONARY = tuple(float(10.0 ** (k / 2)) for k in range(-4, 7))
# The dictionary of Ghari and Shen (2021): squared lengthscales from 10^-2 to 10^2.
SFG_MKL_DICTIONARY = tuple(float(10.0 ** (k / 20)) for k in range(-20, 21))
_STACKING = ("soft-bayes", "stacking", "stacking-share", "stacking-newton")
RULES = ("bma", "bma-shutdown", "dma", "switching", "e-doebe", *_STACKING, "auto", "Q")
_RULE_NAMES = RULES[:-1]
_WALK = "walk 0.001"
_DICTIONARY = {"bases": ("fourier",), "features_per_basis": 100, "lengthscales": IE_GP_DICTIONARY}
_MANY_KERNELS = {"bases": (), "lengthscales": SFG_MKL_DICTIONARY}
# docs/local.md says where the thresholds come from.
_LOCAL = {"bases": (), "max_models": 64}
PRESETS: dict[str, Spec] = {
    spec.model: spec
    for spec in (
        # Chosen by measurement; docs/default.md has what each part is worth, and how to choose again.
        Spec(
            "default",
            bases=("linear", "hilbert", "fourier", "trees", "concatenation"),
            dynamics=("static", "walk 0.001", "walk 0.1", "revert 0.999", "revert 0.99", "revert 0.95"),
            noise=("constant", "adaptive 0.99", "adaptive 0.8", "adaptive 0.8 ar 0.5", "adaptive 0.8 ar 0.9"),
            rule="auto",
            most_features=800,
            without_lags=True,
            robust=True,
            recalibrate=True,
        ),
        Spec("e-doebe", dynamics=("static", "walk 0.0001", _WALK), rule="e-doebe"),
        Spec("oebe"),
        Spec("doebe", dynamics=(_WALK,)),
        Spec("soebe", rule="switching"),
        Spec("sdoebe", dynamics=(_WALK,), rule="switching"),
        Spec("ie-gp", **_DICTIONARY),
        Spec("die-gp", dynamics=(_WALK,), **_DICTIONARY),
        Spec("sie-gp", rule="switching", **_DICTIONARY),
        Spec("dsie-gp", dynamics=(_WALK,), rule="switching", **_DICTIONARY),
        Spec("i-ssgpr", bases=("fourier",), features_per_basis=100, most_features=1),
        Spec("linear", bases=("linear",)),
        *(Spec(name, learner=name, **_MANY_KERNELS) for name in MULTIKERNEL),
        Spec("ovfe", bases=(), learner="ovfe"),
        Spec("wgpr", learner="wgpr", threshold=5.0, **_LOCAL),
        Spec("solar-gp", learner="solar-gp", threshold=0.5, combination="distance", **_LOCAL),
        Spec("lgpr", learner="lgpr", threshold=0.5, combination="distance", **_LOCAL),
    )
}
# In place of the default for targets that are labels, counts or grades.
GENERALISED_DEFAULT = Spec(
    "default",
    bases=("linear", "fourier", "rbf"),
    features_per_basis=100,
    dynamics=("static", _WALK, "walk 0.1"),
    rule="auto",
    most_features=400,
    robust=True,
)


def make_spec(
    model: str,
    *,
    task: str = "regression",
    likelihood: str | None = None,
    exposure: bool = False,
    bases: Sequence[str] | str | None = None,
    features_per_basis: int | None = None,
    n_samples: int = 1,
    dynamics: Sequence[str | float] | str | float | None = None,
    noise: Sequence[str | float] | str | float | None = None,
    weights: Any = None,
    delta: float | None = None,
    share: float | None = None,
    switch: float | None = None,
    q_absolute: bool = False,
    warmup_posterior: str = "condition",
    robust: bool | None = None,
    recalibrate: bool | None = None,
    lags: Any = None,
    horizon: int | None = None,
) -> Spec:
    """A preset by name with the user's changes, every one checked.

    Raises
    ------
    ValueError
        If a name is unknown or a number out of range; the message says what is accepted.
    """
    spec = PRESETS[_known("model", model, PRESETS)]
    allowed = LIKELIHOODS[_known("task", task, LIKELIHOODS)]
    if task != "regression":
        spec = GENERALISED_DEFAULT if model == "default" else spec
        _check_generalised(
            task, noise=noise, recalibrate=recalibrate, lags=lags, horizon=horizon, n_samples=n_samples
        )
    if spec.learner is not None:
        _check_learner(
            spec,
            task,
            bases=bases,
            n_samples=n_samples,
            dynamics=dynamics,
            noise=noise,
            weights=weights,
            delta=delta,
            share=share,
            switch=switch,
            recalibrate=recalibrate,
            horizon=horizon,
        )
    if exposure and task != "count":
        raise ValueError(f"exposure: expected it with counts, got the task {task!r}")
    spec = replace(spec, likelihood=_known("likelihood", likelihood or allowed[0], allowed), exposure=exposure)
    changes: dict[str, Any] = {"q_absolute": bool(q_absolute), "n_samples": whole_number("n_samples", n_samples)}
    if bases is not None:
        names = [bases] if isinstance(bases, str) else list(bases)
        if not names:
            raise ValueError(f"bases: expected at least one of {', '.join(BASES)}, got none")
        changes["bases"] = tuple(dict.fromkeys(_known("bases", name, BASES) for name in names))
    if features_per_basis is not None:
        changes["features_per_basis"] = whole_number("features_per_basis", features_per_basis)
    if dynamics is not None:
        given = [dynamics] if isinstance(dynamics, str | float | int) else list(dynamics)
        if not given:
            raise ValueError("dynamics: expected at least one of 'static', 'walk Q', 'revert LAMBDA', got none")
        with jax.enable_x64(True):  # names keep all digits
            changes["dynamics"] = tuple(dict.fromkeys(parse(d).name for d in given))
    if noise is not None:
        changes["noise"] = parse_noise([noise] if isinstance(noise, str | float | int) else list(noise)).names
    if isinstance(weights, str):
        changes["rule"] = _known("weights", weights, _RULE_NAMES)
    elif weights is not None:
        try:
            rules.markov(weights)
        except (TypeError, ValueError) as error:
            raise ValueError(f"weights: expected one of {', '.join(_RULE_NAMES)}, or a matrix Q ({error})") from None
        changes["rule"] = "Q"
        changes["transition"] = tuple(tuple(map(float, row)) for row in np.asarray(weights))
    for name, value in (("delta", delta), ("share", share), ("switch", switch)):
        if value is not None:
            if not (isinstance(value, Real) and 0.0 <= value < 1.0):
                raise ValueError(f"{name}: expected a probability in [0, 1), got {value!r}")
            changes[name] = float(value)
    if lags is not None:
        each = lags if isinstance(lags, Iterable) else [lags]
        changes["lags"] = tuple(sorted({whole_number("lags", lag) for lag in each}))
    if horizon is not None:
        changes["horizon"] = whole_number("horizon", horizon)
    changes["warmup_posterior"] = _known("warmup_posterior", warmup_posterior, ("condition", "prior"))
    if robust is not None:
        changes["robust"] = bool(robust)
    if recalibrate is not None:
        changes["recalibrate"] = bool(recalibrate)
    spec = replace(spec, **changes)
    copies = len(spec.dynamics) * len(spec.noise)
    if spec.rule == "e-doebe" and spec.delta * copies > 1.0:
        raise ValueError(
            f"delta: expected at most 1/{copies}, since every basis has {copies} copies, got {spec.delta}"
        )
    return spec


def _check_generalised(task: str, **options: Any) -> None:
    """Raise ValueError for an option that belongs to regression alone."""
    for name, value in options.items():
        if value is not None and not (name == "n_samples" and value == 1):
            raise ValueError(f"{name}: expected it with the task 'regression' alone, got {value!r} for {task!r}")


def _check_learner(spec: Spec, task: str, **options: Any) -> None:
    """Raise ValueError for what a model that is no ensemble does not have."""
    if task not in (("regression",) if spec.learner in SPARSE else ("regression", "classification")):
        raise ValueError(f"model: expected an ensemble for the task {task!r}, got {spec.model!r}")
    for name, value in options.items():
        if value is not None and not (name == "n_samples" and value == 1):
            raise ValueError(
                f"{name}: expected it with an ensemble of experts, got {value!r} for the model {spec.model!r}"
            )


def make_sparse_spec(
    model: str,
    *,
    num_inducing: int | None = None,
    batch_size: int | None = None,
    max_models: int | None = None,
    threshold: float | None = None,
    combination: str | None = None,
    steps: int | None = None,
    alpha: float | None = None,
    lags: Any = None,
) -> Spec:
    """A preset of sparse Gaussian processes with the user's changes; None leaves the preset's.

    Raises
    ------
    ValueError
        As `make_spec` does.
    """
    features = None if num_inducing is None else whole_number("num_inducing", num_inducing)
    spec = make_spec(_known("model", model, SPARSE), features_per_basis=features, lags=lags)
    changes: dict[str, Any] = {}
    for name, value in (("batch_size", batch_size), ("max_models", max_models)):
        if value is not None:
            changes[name] = whole_number(name, value)
    if changes.get("max_models", 1) > 1 and model == "ovfe":
        raise ValueError(f"max_models: expected 1 for 'ovfe', which is a single model, got {max_models}; use 'wgpr'")
    if steps is not None:
        changes["steps"] = 0 if isinstance(steps, Integral) and steps == 0 else whole_number("steps", steps)
    if threshold is not None:
        limit = np.inf if model == "wgpr" else 1.0
        if not (isinstance(threshold, Real) and 0.0 <= threshold <= limit):
            raise ValueError(f"threshold: expected a number from 0 to {limit:g} for {model!r}, got {threshold!r}")
        changes["threshold"] = float(threshold)
    if alpha is not None:
        if not (isinstance(alpha, Real) and 0.0 <= alpha <= 1.0):
            raise ValueError(f"alpha: expected a number from 0 (variational) to 1, got {alpha!r}")
        changes["alpha"] = float(alpha)
    if combination is not None:
        changes["combination"] = _known("combination", combination, COMBINATIONS)
    return replace(spec, **changes)


def whole_number(what: str, value: Any) -> int:
    """The value as an int, if it is a whole number of at least one."""
    if not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{what}: expected a whole number >= 1, got {value!r}")
    return int(value)


def _known(what: str, name: Any, allowed: Any) -> str:
    if isinstance(name, str) and name in allowed:
        return name
    near = difflib.get_close_matches(str(name), list(allowed), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{what}: expected one of {', '.join(allowed)}, got {name!r}{hint}")
