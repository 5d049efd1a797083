"""Everything that defines a model before it has seen data."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any

PAPER_BASES = ("linear", "hilbert", "fourier", "rbf")
# What targets may be, and the likelihoods that go with it, the usual one first.
LIKELIHOODS = {
    "regression": ("gaussian",),
    "classification": ("categorical",),
    "count": ("negative-binomial", "poisson"),
    "ordinal": ("ordinal",),
}
# The bases that can be fitted anew as the stream goes on: those that search for frequencies, which takes seconds, and
# trees, which take less.
SEARCHED = ("fourier-trained",)
TREES = ("boosted",)
# The scales on which targets may be learnt: see `streamgp.likelihoods.TargetMap`.
TRANSFORMS = ("log", "log1p", "logit")


@dataclass(frozen=True)
class Spec:
    """Everything that defines an ensemble before it has seen data.

    What a field means that an option sets (see `streamgp.models.options`) is said there.

    Attributes
    ----------
    rule
        The option `weights`; ``Q`` stands for a transition matrix of the user's.
    lengthscales
        Fixed isotropic lengthscales, one expert each, in place of the fitted ones; None fits them.
    most_features
        Of the starting points of a basis those of the best evidence are kept, at least one, and no more than have so
        many features together; None keeps all. It counts the optima alone, so that `n_samples` never changes which
        starting points are kept.
    transition
        The user's Q, as nested tuples; its columns sum to one.
    searched_every
        Of the renewals, one in so many fits trained frequencies anew as well as trees; with 0, none does.
    chooses_lags
        `lags` are those of the warm-up alone; at its end they are chosen (see `streamgp.stream.lag_choice`).
    without_lags
        Where there are lags, every basis serves twice: over all inputs, and over those that are not lags. Each of the
        two has half of `most_features`. A plane over the lags alone joins them.
    bounds, target_transform
        The scale on which targets are learnt, and what is known of them: see `streamgp.likelihoods.TargetMap`.
    horizon
        0: the target of a row is predicted from the inputs of the same row.
    likelihood
        ``gaussian``, with noise as the option `noise` has it; or ``categorical``, ``negative-binomial``,
        ``poisson``, ``ordinal``: see `streamgp.likelihoods`.
    exposure
        For counts: the last input is the log of the exposure, by which the rate is multiplied.
    learners
        Regressors of the user's that serve as bases, by the names that `streamgp.bases.learners` has given them.
    learner
        What works in place of an ensemble, by name: an online learner of many kernels
        (`streamgp.research.multikernel`), or sparse Gaussian processes (`streamgp.research.sparse`).
    """

    model: str
    bases: tuple[str, ...] = PAPER_BASES
    learners: tuple[str, ...] = ()
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
    noise_by_input: bool = False
    rest: bool = False
    renew: bool = False
    device: str = "auto"
    searched_every: int = 3
    lags: tuple[int, ...] = ()
    chooses_lags: bool = False
    without_lags: bool = False
    horizon: int = 0
    bounds: tuple[float | None, float | None] = (None, None)
    target_transform: str | None = None
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
        """Return what the targets are: ``regression``, ``classification``, ``count`` or ``ordinal``."""
        return next(task for task, names in LIKELIHOODS.items() if self.likelihood in names)

    @property
    def stored(self) -> dict[str, Any]:
        """Return what checkpoints hold: all but the device, which belongs to the machine."""
        return {name: value for name, value in asdict(self).items() if name != "device"}

    @property
    def looks_back(self) -> bool:
        """Return whether past targets are inputs."""
        return bool(self.lags)

    def num_past(self, num_outputs: int) -> int:
        """Return how many inputs past targets are, which come last."""
        return len(self.lags) * num_outputs

    @property
    def renewable(self) -> tuple[str, ...]:
        """Return the names of the bases whose experts are fitted anew; none unless `renew` says so."""
        if not self.renew:
            return ()
        cheap = TREES + self.learners
        return cheap + SEARCHED if self.searched_every else cheap

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
        """Return how many starting points are kept, of those with so many features, the best evidence first."""
        if self.most_features is None:
            return len(features)
        return max(1, sum(total <= self.most_features for total in accumulate(features)))
