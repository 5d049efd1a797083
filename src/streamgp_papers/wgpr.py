"""The experiments of Kepler, Koppel, Bedi and Stilwell with Gaussian processes that split."""

from streamgp_papers.kinds import Claim, Reproduction, Use
from streamgp_papers.local import run_models, run_tables, run_toy
from streamgp_papers.verdicts import Figure

PAPER = "Kepler, Koppel, Bedi and Stilwell (2021)"
# Table III: LGPR, WGPR, SOLAR-GP, OVFE; where it fails the paper has no figure.
_PRINTED = {
    "sarcos": (3.195, 4.476, 12.686, None),
    "kin40k": (0.231, 0.797, 0.910, 0.996),
    "abalone": (2.07, 2.487, 2.887, None),
    "pumadyn8nm": (1.079, 1.137, 1.085, 2.482),
}
_MAPS = "bathymetry_celt", "elevation_rockies"  # in place of Claytor Lake, which is not public
_METHODS = ("LGPR", "WGPR", "SOLAR-GP", "OVFE")
_SETTINGS = (
    "Batches of 100, 50 inducing inputs, 30 steps of L-BFGS-B a batch; a new model of WGPR where the change without "
    "units is above 5, of SOLAR-GP and LGPR where the kernel to the nearest centre is below 0.5; these two mix their "
    "five nearest models: the same on all data sets. Inputs and targets are standardised by the first batch. The "
    "paper tunes every threshold by hand and says neither its split, nor the order of rows, nor how they are scaled: "
    "its figures are not strictly comparable."
)

TOY = Reproduction(
    name="wgpr-toy",
    source=f"{PAPER}, Figure 1",
    shows="How many models a line of two regimes is given.",
    uses=(Use("two-regimes"),),
    work=run_toy,
    settings={},
    obstacle="the paper does not state its processes, these are made up",
    metrics=("rmse", "models", "pll", "seconds"),
    figures={
        ("two-regimes", "WGPR", "models"): Figure(2.0),
        ("two-regimes", "WGPR", "rmse"): Figure(0.26),
        ("two-regimes", "SOLAR-GP", "models"): Figure(16.0),
        ("two-regimes", "SOLAR-GP", "rmse"): Figure(0.39),
    },
    claims=(
        Claim("WGPR needs fewer models than SOLAR-GP", "two-regimes", "models", ("WGPR",), ("SOLAR-GP",)),
        Claim("WGPR errs less than SOLAR-GP", "two-regimes", "rmse", ("WGPR",), ("SOLAR-GP",)),
    ),
    trials=5,
    paper_trials=1,
    pictures=(),
    notes=(
        "The paper's processes are not stated. Here: lengthscale 20 and variance 1 up to 150, lengthscale 6 and "
        "variance 9 from there, noise of standard deviation 0.25, 3,000 rows in order, scored at the end on the same "
        "rows.",
        _SETTINGS,
    ),
)

_TUNED = "thresholds are tuned by hand there; split, order and scaling are not stated"
_TIMED = ("sarcos", "kin40k", "abalone", "pumadyn8nm", _MAPS[0])
TABLES = Reproduction(
    name="wgpr-tables",
    source=f"{PAPER}, Tables II and III",
    shows="Sparse Gaussian processes that split, and one that does not, on four tables and two maps.",
    uses=(
        Use("sarcos", ("sarcos_inv_test",)),
        Use("kin40k"),
        Use("abalone"),
        Use("pumadyn8nm"),
        *map(Use, _MAPS),
    ),
    work=run_tables,
    settings={},
    obstacle=_TUNED,
    metrics=("rmse", "pll", "coverage", "models", "seconds"),
    figures={
        (data, method, "rmse"): Figure(value, baseline=method != "WGPR")
        for data, row in _PRINTED.items()
        for method, value in zip(_METHODS, row, strict=True)
        if value is not None
    },
    claims=(
        *(
            Claim("WGPR errs less than SOLAR-GP", data, "rmse", ("WGPR",), ("SOLAR-GP",))
            for data in ("sarcos", "kin40k", "abalone", *_MAPS)
        ),
        *(Claim("WGPR errs less than LGPR", data, "rmse", ("WGPR",), ("LGPR",)) for data in _MAPS),
        Claim("SOLAR-GP errs less than WGPR", "pumadyn8nm", "rmse", ("SOLAR-GP",), ("WGPR",)),
        *(Claim("WGPR errs less than OVFE", data, "rmse", ("WGPR",), ("OVFE",)) for data in ("kin40k", "pumadyn8nm")),
        *(
            Claim("LGPR takes the least time", data, "seconds", ("LGPR",), ("WGPR", "SOLAR-GP", "OVFE"))
            for data in _TIMED
        ),
        *(
            Claim(f"WGPR takes more time than {name}", data, "seconds", (name,), ("WGPR",))
            for data in _TIMED
            for name in ("LGPR", "SOLAR-GP", *(("OVFE",) if data in ("kin40k", "pumadyn8nm") else ()))
        ),
    ),
    control="mean",
    trials=5,
    paper_trials=5,
    pictures=(),
    notes=(
        "RMSE in the units of the data, on a fifth of the rows held out at random. Tables are shuffled; the two "
        "maps, in place of Claytor Lake, are sailed over line after line, every fourth line and point.",
        _SETTINGS,
        "'precision' and 'stream': the same models, combined as a product of experts, and weighed by what each has "
        "predicted. 'alpha 0.5': power expectation propagation in place of the free energy. 'one model a batch': no "
        "model is ever updated. LGPR's hyperparameters, and those of the exact "
        "GP, are fitted on 500 rows drawn from all to learn, beforehand.",
        "StreamingGPRegressor is the default ensemble; its warm-up is 1,000 rows.",
        "On SARCOS, Abalone and Pumadyn WGPR and SOLAR-GP have a single model under these thresholds, and so has "
        "SOLAR-GP on kin40k: their figures there are those of one streaming model, as OVFE's are. LGPR has few "
        "models on these sets, of few rows each: it was not tuned by hand for each, as the paper's was.",
        "Times (Table II) are compared as those of the same run; a map stands for Claytor Lake. LGPR's are without "
        "the fit of its hyperparameters, which is done once beforehand.",
    ),
)

MODELS = Reproduction(
    name="wgpr-models",
    source=f"{PAPER}, Figure 2",
    shows="Error and speed against the number of models.",
    uses=(Use("kin40k"), Use("abalone"), Use("pumadyn8nm"), Use("bathymetry_celt")),
    work=run_models,
    settings={},
    metrics=("rmse", "models", "rows_per_second"),
    claims=(
        Claim(
            "Few models of WGPR err less than any number of SOLAR-GP's",
            "kin40k",
            "rmse",
            ("WGPR, threshold 5", "WGPR, threshold 2"),
            tuple(f"SOLAR-GP, threshold {t:g}" for t in (0.01, 0.1, 0.5, 0.9, 2.0)),
        ),
    ),
    obstacle=_TUNED,
    trials=3,
    paper_trials=1,
    pictures=(),
    notes=(
        _SETTINGS.replace("where the change without units is above 5", "above the threshold"),
        "SOLAR-GP has 1 or 320 models on kin40k at the thresholds tried, and nothing between: others could only "
        "lower its best error.",
    ),
)
