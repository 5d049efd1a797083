"""The options of what is predicted: past targets as inputs, how far ahead, and what is known of the target."""

from functools import partial

from streamgp.models.option_type import Option
from streamgp.models.spec import TRANSFORMS

NUMBERS = ("regression",)
REGRESSOR = "StreamingGPRegressor"
COUNTS = "StreamingGPCountRegressor"
COMMAND, FLEET = "streamgp run", "StreamingGPFleet"
AUTO, NONE = "auto", "none"  # of lags
for_gaussian = partial(Option, families=("gaussian",), tasks=NUMBERS, estimators=(REGRESSOR,))

TARGET_OPTIONS = (
    Option(
        name="lags",
        kind="wholes",
        help="The target so many rows ago is an input too: 1,2,24. Each shorter than the warm-up. none: no lags. "
        "auto: none, 1 to 3 and a season, chosen at the end of the warm-up by how well they would have predicted it.",
        details="With auto, lag 1 is in use until then; the season is one of the clock where times are dates, and "
        "without times 7, 12, 24, 48, 96, 168 or 336 rows; see `streamgp.stream.lag_choice`. Lags count the rows "
        "that were learnt. `predict` takes every row as the next one, so its lags are those of the last row learnt; "
        "given several rows it warns, since of rows that follow each other this is wrong for all but the first: "
        "`evaluate` them, predict and learn them one by one, or choose a `horizon`. In the first rows the mean "
        "target stands in for what is missing. With lags, X may have no columns. Past counts are inputs as "
        "the log of the count over its exposure, 1 added.",
        own_defaults={COMMAND: AUTO, FLEET: AUTO, "RiverForecaster": (1, 2, 3), "RiverAnomalyDetector": (1,)},
        choices=(AUTO, NONE),
        families=("gaussian", "generalised"),
        tasks=(*NUMBERS, "count"),
        estimators=(REGRESSOR, COUNTS),
        low=1,
        panel="Data",
    ),
    for_gaussian(
        name="horizon",
        kind="whole",
        help="Forecast each target so many rows before it comes.",
        details="`predict` then forecasts the target that comes so many rows after the last one learnt, and takes "
        "each row of X as the inputs of that last row: after ``partial_fit(X, y)``, ``predict(X[-1:])``. Lag 1 is "
        "the last target learnt. `evaluate` scores for each row the forecast that was made of it so many rows "
        "before.",
        unset="from the inputs of its own row",
        low=1,
        panel="Data",
    ),
    for_gaussian(
        name="bounds",
        kind="range",
        help="Bounds that the target keeps within: 0, for none below 0; 0,1 for shares.",
        details="In Python ``(0, None)`` or ``(0, 1)``. What is predicted beyond a bound counts as the bound, in "
        "quantiles, bands, draws, mean and std. Densities stay as they are; see "
        "`streamgp.likelihoods.MappedPredictive`. A target outside the bounds is refused.",
        unset="none",
        own_defaults={FLEET: None},
        panel="Data",
    ),
    for_gaussian(
        name="target_transform",
        kind="name",
        help="The scale on which the target is learnt, for noise that grows with it: log (of targets above 0), log1p "
        "(from 0 on), logit (strictly within --bounds).",
        details="With `bounds` logarithms count from the lower one. Predictions, densities and scores are in the "
        "target's own units, exact but for mean, std and CRPS: these are of the distribution with its tails moved in "
        "to where it is believed, see `streamgp.likelihoods.TargetMap.reach`.",
        unset="that of the target itself",
        own_defaults={FLEET: None},
        choices=TRANSFORMS,
        panel="Data",
    ),
)
