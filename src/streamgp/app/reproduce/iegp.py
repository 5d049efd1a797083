"""The figures of Lu, Karanikolas and Giannakis (2022), Incremental ensembles of Gaussian processes."""

from streamgp.app.reproduce.bank import Family
from streamgp.app.reproduce.kinds import Claim, Reproduction, Use
from streamgp.app.reproduce.mixing import Mix
from streamgp.app.reproduce.stream import run_stream
from streamgp.presets import IE_GP_DICTIONARY

PAPER = "Lu, Karanikolas and Giannakis (2022)"

_DICTIONARY = Family("dictionary", "fourier", starts=IE_GP_DICTIONARY, plain=True, fixed=True)
_ARD = Family("ARD", "fourier", best=True, moving=(False,))
_MODELS = (
    Mix("IE-GP", ("dictionary",), moving=False),
    Mix("DIE-GP", ("dictionary",), moving=True),
    Mix("I-SSGPR", ("ARD",)),
)
_BOTH = ("IE-GP", "DIE-GP")
REGRESSION = Reproduction(
    name="ie-gp-regression",
    source=f"{PAPER}, 7.1, Figs. 2 and 3",
    shows="An ensemble over a dictionary of lengthscales, static and moving, against one sparse spectrum GP.",
    uses=(Use("toms_hardware"), Use("sarcos", ("sarcos_inv_test",)), Use("air_quality"), Use("twitter")),
    work=run_stream,
    settings={"warmup": 1000, "families": (_DICTIONARY, _ARD), "mixes": _MODELS},
    metrics=("nmse", "pll"),
    claims=(
        Claim("(D)IE-GP has the least nMSE", "toms_hardware", "nmse", _BOTH, ("I-SSGPR",)),
        Claim("DIE-GP has the least nMSE", "sarcos", "nmse", ("DIE-GP",), ("IE-GP", "I-SSGPR")),
        Claim("DIE-GP has the least nMSE", "air_quality", "nmse", ("DIE-GP",), ("IE-GP", "I-SSGPR")),
        *(
            Claim("(D)IE-GP predicts the density better", data, "pll", _BOTH, ("I-SSGPR",))
            for data in ("toms_hardware", "sarcos", "air_quality")
        ),
    ),
    paper_trials=101,
    notes=(
        "Kernels with squared lengthscales 10^k, k = -4 to 6; 50 frequencies (2n = 100), v and s2 of each expert by "
        "the evidence of the first 1,000 rows, which are not scored; q = 1e-3 for DIE-GP; I-SSGPR has a lengthscale "
        "for each input. The paper shows the run of median nMSE among 101; the tables here have the "
        "median of all trials.",
        "pll is minus the paper's predictive negative log-likelihood, of the target in standard deviations of the "
        "warm-up. The paper prints curves and no figures, so that its statements alone can be judged.",
        "Its other rivals, AdaRaker and the streaming sparse GP of Bui et al. (SSGP), are not here yet, nor are its "
        "running times, which are those of another machine.",
    ),
)
