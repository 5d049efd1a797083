"""The declaration of what the papers' methods add to the core: two families of models, and an estimator."""

from functools import partial

from streamgp.annexes import Annex
from streamgp.models.declared import DeclaredFamily
from streamgp.models.option_type import Option
from streamgp.models.spec import Spec

# The dictionary of Ghari and Shen (2021): squared lengthscales from 10^-2 to 10^2.
SFG_MKL_DICTIONARY = tuple(float(10.0 ** (k / 20)) for k in range(-20, 21))
COMBINATIONS = ("nearest", "precision", "stream", "distance")
SPLITTING = "SplittingGPRegressor"
_NUMBERS = ("regression",)
# docs/research/local.md says where the thresholds come from.
_THRESHOLD = 0.5
_LOCAL = {"bases": (), "max_models": 64}
_WGPR = Spec("wgpr", learner="wgpr", threshold=5.0, **_LOCAL)
_option = partial(Option, families=("sparse",), tasks=_NUMBERS, estimators=(SPLITTING,), command=False)

MULTIKERNEL = DeclaredFamily(
    name="multikernel",
    title="many kernels by gradient steps",
    tasks=(*_NUMBERS, "classification"),
    module="streamgp.research.multikernel.family",
    presets=tuple(
        Spec(name, learner=name, bases=(), lengthscales=SFG_MKL_DICTIONARY)
        for name in ("sfg-mkl", "sfg-mkl-r", "raker", "adaraker", "omkr", "omkl-gf")
    ),
    takes=("lags",),
)
SPARSE = DeclaredFamily(
    name="sparse",
    title="sparse and local Gaussian processes",
    tasks=_NUMBERS,
    module="streamgp.research.sparse.family",
    presets=(
        Spec("ovfe", bases=(), learner="ovfe"),
        _WGPR,
        Spec("solar-gp", learner="solar-gp", threshold=_THRESHOLD, combination="distance", **_LOCAL),
        Spec("lgpr", learner="lgpr", threshold=_THRESHOLD, combination="distance", **_LOCAL),
    ),
    options=(
        _option(
            name="num_inducing",
            kind="whole",
            help="Inducing inputs of each model; of lgpr, the rows that each keeps.",
            unset="50, of lgpr 100",
            low=1,
            sets="features_per_basis",
        ),
        _option(
            name="batch_size",
            kind="whole",
            help="Rows of a batch.",
            details="Rows are predicted by what the batches before theirs have taught.",
            unset=f"{Spec.batch_size}",
            low=1,
        ),
        _option(
            name="max_models",
            kind="whole",
            help="How many models there may be; of ovfe 1.",
            details="When there are so many, a batch goes to the best of them.",
            unset=f"{_WGPR.max_models}",
            low=1,
        ),
        _option(
            name="threshold",
            kind="number",
            help="When a new model begins. wgpr: above this change, in units of the variances believed in. solar-gp, "
            "lgpr: where the kernel to the nearest centre is below this, at most 1.",
            unset=f"{_WGPR.threshold:g} for wgpr, {_THRESHOLD:g} for the others",
            low=0,
        ),
        _option(
            name="combination",
            kind="name",
            help="How models make one prediction: nearest (the one with the nearest inducing input), precision "
            "(generalised product of experts), stream (a mixture, weighed by what each has predicted), distance (a "
            "mixture of the five nearest, weighed by the kernel to their centres).",
            unset="as in the paper of the model",
            choices=COMBINATIONS,
        ),
        _option(
            name="steps",
            kind="whole",
            help="Optimiser steps of a batch; 0 keeps hyperparameters as they are.",
            unset=f"{Spec.steps}",
            low=0,
        ),
        _option(
            name="alpha",
            kind="number",
            help="Between variational free energy (0) and power expectation propagation (1).",
            unset=f"{Spec.alpha:g}",
            low=0,
            high=1,
        ),
    ),
    takes=("lags",),
    estimators={SPLITTING: {"model": "wgpr", "robust": True}},
)

ANNEX = Annex(
    names={SPLITTING: "streamgp.research.splitting_regressor"},
    loadable=(SPLITTING,),
    families=(MULTIKERNEL, SPARSE),
)
