"""The models by name: which bases, which dynamics, which weights (Lu et al. 2022; Waxman and Djuric 2024)."""

from dataclasses import replace

from streamgp.annexes import annexes
from streamgp.models.declared import DeclaredFamily
from streamgp.models.spec import Spec

# The families that annexes add.
ADDED: tuple[DeclaredFamily, ...] = tuple(family for annex in annexes() for family in annex.families)

# IE-GP's dictionary: isotropic squared-exponential kernels with squared lengthscales 10^k.
IE_GP_DICTIONARY = tuple(float(10.0 ** (k / 2)) for k in range(-4, 7))
_WALK = "walk 0.001"
_DICTIONARY = {"bases": ("fourier",), "features_per_basis": 100, "lengthscales": IE_GP_DICTIONARY}
# Chosen by measurement: see docs/research/presets.md and docs/research/default.md.
_DEFAULT = Spec(
    "default",
    bases=("linear", "hilbert", "trees", "concatenation", "fourier-trained", "boosted"),
    dynamics=("static", "walk 0.001", "walk 0.1", "revert 0.999", "revert 0.99", "revert 0.95"),
    noise=("constant", "adaptive 0.99", "adaptive 0.8", "adaptive 0.8 ar 0.5", "adaptive 0.8 ar 0.9"),
    rule="auto",
    most_features=800,
    without_lags=True,
    robust=True,
    recalibrate=True,
    noise_by_input=True,
    rest=True,
    renew=True,
    searched_every=6,
)
# Four of its bases, at half of its dynamics, and nothing fitted anew.
_FAST = replace(
    _DEFAULT,
    model="fast",
    bases=("linear", "hilbert", "fourier-trained", "boosted"),
    dynamics=("static", _WALK, "revert 0.95"),
    most_features=200,
    renew=False,
    searched_every=3,
)
# The same, and frequencies are trained anew twice as often.
_BEST = replace(_DEFAULT, model="best", searched_every=3)
PRESETS: dict[str, Spec] = {
    spec.model: spec
    for spec in (
        _DEFAULT,
        _FAST,
        _BEST,
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
        *(preset for family in ADDED for preset in family.presets),
    )
}
NUMBERS_ONLY = ("best",)
# The ensembles that papers print.
PRINTED = ("e-doebe", "oebe", "doebe", "soebe", "sdoebe", "ie-gp", "die-gp", "sie-gp", "dsie-gp", "i-ssgpr")
# In place of those of the same names for targets that are labels, counts or grades.
_GENERALISED_DEFAULT = Spec(
    "default",
    bases=("linear", "fourier", "rbf"),
    features_per_basis=100,
    dynamics=("static", _WALK, "walk 0.1"),
    rule="auto",
    most_features=400,
    robust=True,
    noise_by_input=True,
)
# Chosen by measurement: see docs/research/labels.md.
_GENERALISED_FAST = replace(
    _GENERALISED_DEFAULT,
    model="fast",
    bases=("linear", "rbf"),
    features_per_basis=80,
    dynamics=("walk 0.0001", "walk 0.03"),
    most_features=80,
)
GENERALISED: dict[str, Spec] = {spec.model: spec for spec in (_GENERALISED_DEFAULT, _GENERALISED_FAST)}
