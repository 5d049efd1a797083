"""Everything that defines a model before it has seen data."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamgp import weights as rules
from streamgp.weights import WeightRule

PAPER_BASES = ("linear", "hilbert", "fourier", "rbf")
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
        Names of basis families (see `streamgp.bases.BASES`).
    features_per_basis
        Features of each basis, F; None takes each family's default.
    dynamics
        Names of the dynamics that every basis gets a copy of.
    noise
        Names of the kinds of noise that every such copy gets (see `streamgp.filters.noise`): they share its filter.
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
        around it (see `streamgp.fitting.hyperparameter_samples`). `most_features` counts the optima alone, so that
        samples never change which starting points are kept.
    transition
        The user's Q, as nested tuples; its columns sum to one.
    q_absolute
        Random-walk variances are absolute, as in the papers, instead of relative to the prior variance of the
        function (or to the target's variance, where that is smaller).
    warmup_posterior
        ``condition``: after the fit the experts learn the warm-up rows; ``prior``: they start again from the
        prior, as in the papers.
    robust
        Glitches are set aside: a row that a filter finds absurd is learnt with its noise raised, and the warm-up is
        screened for outliers before the fit. The papers' models have it off.
    recalibrate
        The levels of the mixture are recalibrated by those at which the targets before came (see
        `streamgp.core.recalibration`). The papers' models have it off.
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
        What works in place of an ensemble, by name: an online learner of many kernels
        (`streamgp.models.multikernel`), which of what stands above uses `features_per_basis`, `lengthscales`, `lags`
        and `likelihood`; or sparse Gaussian processes (`streamgp.models.sparse`), which use `lags`,
        `features_per_basis` (inducing inputs of each) and:
    batch_size, max_models, threshold, combination, steps, alpha
        See `streamgp.models.sparse.LocalGPs` and `streamgp.models.sparse.Learning`.
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
    robust: bool = False
    recalibrate: bool = False
    lags: tuple[int, ...] = ()
    without_lags: bool = False
    horizon: int = 0
    likelihood: str = "gaussian"
    exposure: bool = False
    learner: str | None = None
    batch_size: int = 100
    max_models: int = 1
    threshold: float = 0.0
    combination: str = "nearest"
    steps: int = 30
    alpha: float = 0.0

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
