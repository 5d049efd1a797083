"""The options of the models: each one's name, type, default, range and text, declared once.

`streamgp.models.registry.make_spec` checks by this table, the command makes its options of it, the estimators their
docstrings, and ``docs/reference/options.md`` is rendered from it. Nothing heavy is imported here: ``streamgp run
--help`` reads it. A further option is an entry in `_DECLARED` and a field of `Spec`; then ``python -m
benchmarks.pages.options`` writes the constructors of the estimators that it names, and the pages. Annexes add some.
"""

from dataclasses import replace
from functools import partial
from typing import Any, Literal, get_args

from streamgp.filters.noise_kinds import HELP as NOISE_HELP
from streamgp.models.option_type import Option
from streamgp.models.presets import ADDED, PRESETS
from streamgp.models.spec import LIKELIHOODS, Spec
from streamgp.models.target_options import (
    AUTO,
    COUNTS,
    FLEET,
    NONE,
    NUMBERS,
    REGRESSOR,
    TARGET_OPTIONS,
    for_gaussian,
)

TASKS = tuple(LIKELIHOODS)
DEVICES = ("auto", "cpu", "gpu")
# The families of models, and for which targets each has models.
FAMILY_TASKS: dict[str, tuple[str, ...]] = {
    "gaussian": NUMBERS,
    "generalised": ("classification", "count", "ordinal"),
} | {family.name: family.tasks for family in ADDED}
FAMILIES = tuple(FAMILY_TASKS)
STEPS_TASKS = FAMILY_TASKS["gaussian"]  # of which several steps ahead can be predicted at once
ENSEMBLES = ("gaussian", "generalised")

USED = ("fast", "default", "best")  # of the models; the others are for research
ENSEMBLE_ESTIMATORS = (REGRESSOR, "StreamingGPClassifier", COUNTS, "StreamingGPOrdinal")
ESTIMATORS = (*ENSEMBLE_ESTIMATORS, *(estimator for family in ADDED for estimator in family.estimators))

DEFAULT_WARMUP = 1000
MIN_WARMUP = 10  # and a row for each input: with fewer there is nothing that error bars could rest on
Missing = Literal["impute", "skip", "raise"]
MISSING: tuple[Missing, ...] = get_args(Missing)
CALENDAR_CYCLES = ("day", "week", "month", "year")  # of `streamgp.table.calendar`
BASES = (
    *("linear", "fourier", "hilbert", "hilbert-product", "nystrom", "rbf", "polynomial", "spline", "trees"),
    *("boosted", "concatenation", "fourier-trained", "fourier-optimised", "rbf-optimised"),
)
WEIGHT_RULES = (
    *("bma", "bma-shutdown", "dma", "switching", "e-doebe"),
    *("soft-bayes", "stacking", "stacking-share", "stacking-newton", "auto"),
)
_ON_BY_DEFAULT = "on for fast, default and best, off for the papers' models"
_PRESETS_OWN = "the preset's"
_for_all = partial(Option, families=FAMILIES, tasks=TASKS, estimators=ESTIMATORS)
_for_ensembles = partial(Option, families=ENSEMBLES, tasks=TASKS, estimators=ENSEMBLE_ESTIMATORS)

# The options that are not of the model alone.

MODEL = _for_all(
    name="model",
    kind="name",
    help=f"{', '.join(USED[:-1])} or {USED[-1]}: ensembles, the quickest first. For research: "
    + ", ".join(name for name, spec in PRESETS.items() if spec.learner is None and name not in USED)
    + "".join(f"; {family.title}: {', '.join(family.models)}" for family in ADDED)
    + ".",
    details="Classes, counts and grades have ensembles of their own by the names default and fast, and none by best.",
    default="default",
)
WARMUP = _for_all(
    name="warmup",
    kind="whole",
    help="Rows of the warm-up.",
    details="There must be one more for each input, lags included. In `fit` a shorter data set has a fifth of it, "
    "but 50 rows if there are; `partial_fit` takes 1,000. Before its end `predict` warns once that a simple default "
    "model predicts.",
    unset=f"{DEFAULT_WARMUP}, or a fifth of a shorter file",
    low=MIN_WARMUP,
    panel="Learning",
)
MISSING_VALUES = _for_all(
    name="missing",
    kind="name",
    help="Values that are missing or no numbers: impute (a row without its target is predicted, and not learnt), "
    "skip and count the rows, or raise an error.",
    details="Inputs are filled from the rest of the row and from the rows before (see `streamgp.stream.imputation`); "
    "the prediction is the less certain for it.",
    default="impute",
    own_defaults={FLEET: "raise"},
    choices=MISSING,
    panel="Data",
)
MISSING_CODES = _for_all(
    name="missing_values",
    kind="codes",
    help="Codes that stand for a missing value, in X and in y, such as -9999.",
    details="Numbers are compared as numbers, words as text. Missing values themselves (NaN, None) always count.",
    unset="none",
    panel="Data",
)
CALENDAR = _for_all(
    name="calendar",
    kind="names",
    help="Cycles of time that columns of dates, and times that are dates, are inputs by: a sine and a cosine each, "
    "in UTC. auto: those of the column by which the rows come that would have predicted the warm-up better. none: "
    "columns of dates are left out.",
    details="The column of auto is that of `times`, or else the one of dates that rise, of which the index of a "
    "pandas frame may be one. Its cycles are chosen at the end of the warm-up, of those that it shows whole: see "
    "`streamgp.stream.calendar_choice`. Other columns of dates are left out then.",
    default=AUTO,
    choices=(AUTO, NONE, *CALENDAR_CYCLES),
    panel="Data",
)
HOLIDAYS = _for_all(
    name="holidays",
    kind="country",
    help="Country whose public holidays are an input, 1 on these days: DE, or DE-BY for a part. Needs dates and "
    "the package holidays (extra holidays).",
    unset="none",
    panel="Data",
)
SEED = _for_all(
    name="random_state",
    kind="seed",
    help="Seed of everything random.",
    details="In Python also a `numpy.random.RandomState`, or None.",
    default=0,
    flag="--seed",
    panel="Learning",
)


def calendar_of(calendar: Any, holidays: str | None) -> tuple[str, ...]:
    """Return the entries of the calendar that values of the two options ask for: see `streamgp.table.calendar`.

    Raises
    ------
    ValueError
        If there are no such cycles, or no holidays are known of the country.
    """
    names = (NONE,) if calendar is None else CALENDAR.check(calendar)
    alone = [name for name in names if name in (AUTO, NONE)]
    if alone and len(names) > 1:
        raise ValueError(
            f"calendar: expected {alone[0]} by itself, or some of {', '.join(CALENDAR_CYCLES)}, got both"
        )
    entries = () if NONE in names else tuple(names)
    if holidays is None:
        return entries
    from streamgp.table.calendar import HOLIDAYS as OF_COUNTRY
    from streamgp.table.calendar import holidays_of

    holidays_of(holidays, 2024)  # known, if any year is
    return *entries, OF_COUNTRY + holidays


# The options that `make_spec` takes.

_DECLARED = (
    _for_ensembles(
        name="bases",
        kind="names",
        help="Families of bases.",
        details="See ``streamgp.bases``; a name that is registered there may be given, too.",
        unset=_PRESETS_OWN,
        choices=BASES,
    ),
    for_gaussian(
        name="learners",
        kind="regressors",
        help="Regressors with fit and predict, as scikit-learn's, each of which serves as one more basis: a plane "
        "beside what it predicts.",
        details="Its weight is learnt from rows that it was not fitted to. With `renew` it is fitted anew as the "
        "stream goes on. See `streamgp.bases.Learner`.",
        unset="none",
        command=False,
    ),
    Option(
        name="features_per_basis",
        kind="whole",
        help="Features of each basis.",
        unset="each basis' own",
        low=1,
        families=FAMILIES,
        tasks=TASKS,
        estimators=ENSEMBLE_ESTIMATORS,
    ),
    for_gaussian(
        name="n_samples",
        kind="whole",
        help="Experts for each optimum of the hyperparameters: itself, and samples of the evidence around it.",
        details="The samples are drawn from the Laplace approximation. Each costs as much as the first.",
        default=1,
        low=1,
    ),
    _for_ensembles(
        name="dynamics",
        kind="terms",
        help="How weights may move: static, 'walk Q' (a random walk), 'revert LAMBDA' (mean-reverting).",
        details="Q is relative to the prior variance of the function, or to the target's variance where that is "
        "smaller; a number q stands for ``walk q``.",
        unset=_PRESETS_OWN,
    ),
    for_gaussian(
        name="noise",
        kind="terms",
        help=f"What noise may be: {NOISE_HELP}.",
        details="Several kinds share one filter and are weighed against each other.",
        unset=_PRESETS_OWN,
    ),
    _for_ensembles(
        name="weights",
        kind="weights",
        help="How experts are weighed; auto is a mixture over rules.",
        details="In Python also a K x K matrix Q whose columns sum to one (``Q[i, j]`` is the probability of expert "
        "i now, given j before).",
        unset=_PRESETS_OWN,
        choices=WEIGHT_RULES,
    ),
    _for_ensembles(
        name="delta",
        kind="probability",
        help="Switching rate of e-doebe between two dynamics of a basis.",
        unset=f"{Spec.delta:g}",
    ),
    _for_ensembles(
        name="share",
        kind="probability",
        help="Rate of a fresh start among all experts, under e-doebe; 0 is the paper's.",
        unset=f"{Spec.share:g}",
    ),
    _for_ensembles(
        name="switch",
        kind="probability",
        help="Probability per row of leaving an expert, under switching.",
        unset=f"{Spec.switch:g}",
    ),
    Option(
        name="paper",
        kind="flag",
        help="A paper's model as it is printed: variances of random walks absolute, not relative to the prior "
        "variance; from the prior after the fit; without fresh starts; of weights by Bayes' rule none below 1e-16.",
        details="For e-doebe, oebe, doebe, soebe and sdoebe (Waxman and Djuric 2024), ie-gp, die-gp, sie-gp, dsie-gp "
        "and i-ssgpr (Lu et al. 2022). Other options change it as they change its preset.",
        default=False,
        families=ENSEMBLES,
        tasks=TASKS,
        estimators=ENSEMBLE_ESTIMATORS,
        panel="Learning",
    ),
    Option(
        name="likelihood",
        kind="name",
        help="The distribution of a count: negative-binomial, whose excess over the Poisson variance is learnt in "
        "the warm-up (and may be next to none), or poisson.",
        default=LIKELIHOODS["count"][0],
        choices=LIKELIHOODS["count"],
        families=("generalised",),
        tasks=("count",),
        estimators=(COUNTS,),
        command=False,
    ),
    Option(
        name="warmup_posterior",
        kind="name",
        help="After the fit: learn the warm-up rows, or restart from the prior.",
        details="The papers restart.",
        default="condition",
        choices=("condition", "prior"),
        families=FAMILIES,
        tasks=TASKS,
        estimators=ENSEMBLE_ESTIMATORS,
        panel="Learning",
    ),
    _for_all(
        name="robust",
        kind="switch",
        help="Set glitches aside: absurd rows are predicted, flagged and hardly learnt.",
        details="Five absurd rows in a row are a change and learnt as any others. The warm-up is screened for "
        "outliers.",
        unset=_ON_BY_DEFAULT,
        panel="Learning",
    ),
    for_gaussian(
        name="recalibrate",
        kind="switch",
        help="Let the bands learn from the levels at which the targets before came.",
        details="The mean stays as it is. See `streamgp.likelihoods.recalibration_by_spread`.",
        unset=_ON_BY_DEFAULT,
        panel="Learning",
    ),
    Option(
        name="noise_by_input",
        kind="switch",
        help="Let the noise follow the inputs, so that bands are right for each kind of row.",
        details="The mean stays as it is. See `streamgp.likelihoods.noise_by_input`, for counts "
        "`streamgp.likelihoods.overdispersion`: those of a Poisson have no variance of their own.",
        unset=_ON_BY_DEFAULT,
        families=ENSEMBLES,
        tasks=(*NUMBERS, "count"),
        estimators=(REGRESSOR, COUNTS),
        panel="Learning",
    ),
    for_gaussian(
        name="rest",
        kind="switch",
        help="Let filters of next to no weight rest, so that the others cost less.",
        details="They work one period of 1,024 rows in four, and all of them as soon as predictions become worse. "
        "See `streamgp.models.gaussian.resting`. With a horizon none rests.",
        unset=_ON_BY_DEFAULT,
        panel="Learning",
    ),
    for_gaussian(
        name="renew",
        kind="switch",
        help="Fit experts anew as the stream goes on, to more rows and later ones than the warm-up had.",
        details="After each quarter more rows, to 8,192 at most: half of them the latest. See "
        "`streamgp.models.gaussian.renewal`. Of the bases, boosted and fourier-trained can be renewed.",
        unset="on for default and best, off for the other models",
        panel="Learning",
    ),
    for_gaussian(
        name="device",
        kind="name",
        help="Where the filters learn: cpu, gpu (an accelerator that JAX finds), or auto: there where they are large "
        "enough to gain by it.",
        details="The numbers are the same to 1e-9. Programs are compiled for an accelerator, under auto while the "
        "processor goes on. It is no part of a checkpoint: what is loaded begins with auto. See "
        "`streamgp.filters.engine.placement`.",
        default="auto",
        choices=DEVICES,
        panel="Learning",
    ),
    *TARGET_OPTIONS,
    *(option for family in ADDED for option in family.options),
)


def _with_annexes(option: Option) -> Option:
    """Return an option as it is with the families and estimators that annexes add."""
    for family in ADDED:
        if option.name in family.takes:
            families, estimators = (*option.families, family.name), (*option.estimators, *family.estimators)
            option = replace(option, families=families, estimators=estimators)
        own = {each: defaults[option.name] for each, defaults in family.estimators.items() if option.name in defaults}
        option = replace(option, own_defaults={**option.own_defaults, **own})
    return option


MODEL = _with_annexes(MODEL)
OPTIONS: dict[str, Option] = {option.name: _with_annexes(option) for option in _DECLARED}
SHARED = (MODEL, WARMUP, MISSING_VALUES, MISSING_CODES, CALENDAR, HOLIDAYS, SEED)


def options_of(estimator: str) -> list[Option]:
    """Return the options that are parameters of an estimator, `model` and `warmup` first."""
    given = (MODEL, WARMUP, *OPTIONS.values(), MISSING_VALUES, MISSING_CODES, CALENDAR, HOLIDAYS, SEED)
    return [option for option in given if estimator in option.estimators]
