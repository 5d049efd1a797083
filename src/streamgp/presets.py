"""The models by name: which bases, which dynamics, which weights (Lu et al. 2022; Waxman and Djuric 2024)."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import jax
import numpy as np

from streamgp import weights as rules
from streamgp.bases import FAMILIES
from streamgp.dynamics import parse
from streamgp.noise import parse as parse_noise
from streamgp.weights import WeightRule

PAPER_BASES = ("linear", "hilbert", "fourier", "rbf")
# IE-GP's dictionary: isotropic squared-exponential kernels with squared lengthscales 10^k.
IE_GP_DICTIONARY = tuple(float(10.0 ** (k / 2)) for k in range(-4, 7))
# The dictionary of Ghari and Shen (2021): squared lengthscales from 10^-2 to 10^2.
SFG_MKL_DICTIONARY = tuple(float(10.0 ** (k / 20)) for k in range(-20, 21))
_STACKING = ("soft-bayes", "stacking", "stacking-share", "stacking-newton")
RULES = ("bma", "bma-shutdown", "dma", "switching", "e-doebe", *_STACKING, "auto", "Q")
_RULE_NAMES = RULES[:-1]
# What targets may be, and the likelihoods that go with it, the usual one first.
LIKELIHOODS = {
    "regression": ("gaussian",),
    "classification": ("categorical",),
    "count": ("negative-binomial", "poisson"),
    "ordinal": ("ordinal",),
}


@dataclass(frozen=True)
class Spec:
    """Everything that defines an ensemble before it has seen data.

    Attributes
    ----------
    bases
        Names of basis families (see `streamgp.bases.FAMILIES`).
    features_per_basis
        Features of each basis, F; None takes each family's default.
    dynamics
        Names of the dynamics that every basis gets a copy of.
    noise
        Names of the kinds of noise that every such copy gets (see `streamgp.noise`): they share its filter.
    rule
        ``bma``, ``bma-shutdown``, ``dma`` (Bayes with forgetting), ``switching`` (fixed share over all experts),
        ``e-doebe`` (switching between the dynamics of one basis), ``soft-bayes``, ``stacking``, ``stacking-share`` or
        ``stacking-newton`` (four that seek the best blend: see `streamgp.weights.stacking`), ``auto`` (a mixture over
        rules) or ``Q`` (a transition matrix of the user's).
    delta
        E-DOEBE's switching rate between two dynamics of one basis.
    share
        Probability per row, under ``e-doebe``, of a fresh start among all experts; the paper has none.
    switch
        Probability per row of leaving an expert under ``switching``.
    lengthscales
        Fixed isotropic lengthscales, one expert each, in place of the fitted ones; None fits them.
    most_features
        Of the starting points of a basis those of the best evidence are kept, at least one, and no more than have so
        many features together; None keeps all.
    n_samples
        Experts of each starting point kept: its optimum, and draws from the Laplace approximation of the evidence
        around it (see `streamgp.laplace`). `most_features` counts the optima alone, so that samples never change
        which starting points are kept.
    transition
        The user's Q, as nested tuples; its columns sum to one.
    q_absolute
        Random-walk variances are absolute, as in the papers, instead of relative to the prior variance of the
        function (or to the target's variance, where that is smaller).
    warmup_posterior
        ``condition``: after the fit the experts learn the warm-up rows; ``prior``: they start again from the
        prior, as in the papers.
    lags
        Which targets before a row are among its inputs, in rows back, ascending.
    without_lags
        Where there are lags, every basis serves twice: over all inputs, and over those that are not lags. Each of the
        two has half of `most_features`.
    horizon
        How many rows after the last one learnt the forecast is for; 0: the target of a row is predicted from the
        inputs of the same row.
    likelihood
        ``gaussian``, with noise as above; or ``categorical``, ``negative-binomial``, ``poisson``, ``ordinal``: see
        `streamgp.likelihoods`.
    exposure
        For counts: the last input is the log of the exposure, by which the rate is multiplied.
    learner
        An online learner of many kernels in place of an ensemble (see `streamgp.multikernel`); of what stands above,
        it heeds `features_per_basis`, `lengthscales`, `lags` and `likelihood`.
    """

    model: str
    bases: tuple[str, ...] = PAPER_BASES
    features_per_basis: int | None = None
    dynamics: tuple[str, ...] = ("static",)
    noise: tuple[str, ...] = ("constant",)
    rule: str = "bma"
    delta: float = 0.01
    share: float = 0.01
    switch: float = 1e-3
    lengthscales: tuple[float, ...] | None = None
    most_features: int | None = None
    n_samples: int = 1
    transition: tuple[tuple[float, ...], ...] | None = None
    q_absolute: bool = False
    warmup_posterior: str = "condition"
    lags: tuple[int, ...] = ()
    without_lags: bool = False
    horizon: int = 0
    likelihood: str = "gaussian"
    exposure: bool = False
    learner: str | None = None

    @property
    def task(self) -> str:
        """What the targets are: ``regression``, ``classification``, ``count`` or ``ordinal``."""
        return next(task for task, names in LIKELIHOODS.items() if self.likelihood in names)

    def check(self, num_inputs: int, warmup: int) -> None:
        """Raise ValueError if a basis cannot take so many inputs, or lag or horizon are too long for the warm-up.

        Better now than at its end.
        """
        if self.horizon + max(self.lags, default=0) >= warmup > max(self.lags, default=0):
            raise ValueError(
                f"horizon: expected a horizon that leaves pairs of inputs and targets in the warm-up of {warmup} "
                f"rows, got {self.horizon} and lags up to {max(self.lags, default=0)}; choose a longer warm-up"
            )
        if self.lags and self.lags[-1] >= warmup:
            raise ValueError(
                f"lags: expected lags shorter than the warm-up of {warmup} rows, got {self.lags[-1]}; choose a "
                f"longer warm-up or shorter lags"
            )
        if num_inputs == 0:
            raise ValueError("X: expected at least one column, or lags of the target as inputs, got neither")
        if "hilbert-product" in self.bases and num_inputs > 3:
            raise ValueError(
                f"bases: expected at most 3 inputs for 'hilbert-product', got {num_inputs} (one-hot columns "
                f"and lags included); choose fewer features, or use 'hilbert'"
            )

    def starts_kept(self, features: Sequence[int]) -> int:
        """How many starting points of a basis are kept, of those with so many features, the best evidence first."""
        if self.most_features is None:
            return len(features)
        return max(1, int(np.sum(np.cumsum(features) <= self.most_features)))

    def make_rule(self, groups: Sequence[int]) -> WeightRule:
        """The weight rule for experts whose bases are numbered by `groups`."""
        match self.rule:
            case "bma":
                return rules.BMA()
            case "bma-shutdown":
                return rules.BMA(1e-16)
            case "switching":
                return rules.fixed_share(len(groups), self.switch)
            case "e-doebe":
                return rules.share(groups, self.delta, self.share)
            case "dma":
                return rules.DMA()
            case "soft-bayes":
                return rules.SoftBayes()
            case "stacking":
                return rules.ExponentiatedGradient()
            case "stacking-share":
                return rules.ExponentiatedGradient(share=1e-3)
            case "stacking-newton":
                return rules.NewtonStep()
            case "auto":
                return rules.auto(groups)
            case _:
                Q = np.asarray(self.transition, dtype=float)
                if Q.shape != (len(groups), len(groups)):
                    raise ValueError(
                        f"weights: expected a {len(groups)} x {len(groups)} matrix Q for the {len(groups)} experts "
                        f"that the warm-up kept, got shape {Q.shape}"
                    )
                return rules.markov(Q)


_WALK = "walk 0.001"
_DICTIONARY = {"bases": ("fourier",), "features_per_basis": 100, "lengthscales": IE_GP_DICTIONARY}
MULTIKERNEL = ("sfg-mkl", "sfg-mkl-r", "raker", "adaraker", "omkr", "omkl-gf")
_MANY_KERNELS = {"bases": (), "lengthscales": SFG_MKL_DICTIONARY}
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
        _check_generalised(task, noise=noise, lags=lags, horizon=horizon, n_samples=n_samples)
    if spec.learner is not None:
        _check_multikernel(
            model,
            task,
            bases=bases,
            n_samples=n_samples,
            dynamics=dynamics,
            noise=noise,
            weights=weights,
            delta=delta,
            share=share,
            switch=switch,
            horizon=horizon,
        )
    if exposure and task != "count":
        raise ValueError(f"exposure: expected it with counts, got the task {task!r}")
    spec = replace(spec, likelihood=_known("likelihood", likelihood or allowed[0], allowed), exposure=exposure)
    changes: dict[str, Any] = {"q_absolute": bool(q_absolute), "n_samples": whole_number("n_samples", n_samples)}
    if bases is not None:
        names = [bases] if isinstance(bases, str) else list(bases)
        if not names:
            raise ValueError(f"bases: expected at least one of {', '.join(FAMILIES)}, got none")
        changes["bases"] = tuple(dict.fromkeys(_known("bases", name, FAMILIES) for name in names))
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


def _check_multikernel(model: str, task: str, **options: Any) -> None:
    """Raise ValueError for what an online learner of many kernels does not have."""
    if task not in ("regression", "classification"):
        raise ValueError(f"model: expected an ensemble for the task {task!r}, got {model!r}")
    for name, value in options.items():
        if value is not None and not (name == "n_samples" and value == 1):
            raise ValueError(
                f"{name}: expected it with an ensemble of experts, got {value!r} for the model {model!r}"
            )


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
