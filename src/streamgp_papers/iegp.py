"""The figures of Lu, Karanikolas and Giannakis (2022), Incremental ensembles of Gaussian processes."""

from streamgp.models.presets import IE_GP_DICTIONARY
from streamgp_papers.bank import Family
from streamgp_papers.kinds import Claim, Reproduction, Use
from streamgp_papers.mixing import Mix
from streamgp_papers.regret import LENGTHS, run_check
from streamgp_papers.running_times import run_times
from streamgp_papers.stream import run_stream

PAPER = "Lu, Karanikolas and Giannakis (2022)"

_DICTIONARY = Family("dictionary", "fourier", starts=IE_GP_DICTIONARY, plain=True, fixed=True)
_ARD = Family("ARD", "fourier", best=True, moving=(False,))
_MODELS = (
    Mix("IE-GP", ("dictionary",), moving=False),
    Mix("DIE-GP", ("dictionary",), moving=True),
    Mix("I-SSGPR", ("ARD",)),
)
_BOTH = ("IE-GP", "DIE-GP")
_BASELINES = ("I-SSGPR", "SSGP", "AdaRaker")
REGRESSION = Reproduction(
    name="ie-gp-regression",
    source=f"{PAPER}, 7.1, Figs. 2 and 3",
    shows="An ensemble over a dictionary of lengthscales, static and moving, against one sparse spectrum GP.",
    uses=(Use("toms_hardware"), Use("sarcos", ("sarcos_inv_test",)), Use("air_quality"), Use("twitter")),
    work=run_stream,
    settings={
        "warmup": 1000,
        "families": (_DICTIONARY, _ARD),
        "mixes": _MODELS,
        "ssgp_sizes": {"num_inducing": 100, "batch_size": 300},
        "features": 100,
    },
    metrics=("nmse", "pll"),
    claims=(
        Claim("(D)IE-GP has the least nMSE", "toms_hardware", "nmse", _BOTH, _BASELINES),
        Claim("DIE-GP has the least nMSE", "sarcos", "nmse", ("DIE-GP",), ("IE-GP", *_BASELINES)),
        Claim("DIE-GP has the least nMSE", "air_quality", "nmse", ("DIE-GP",), ("IE-GP", *_BASELINES)),
        *(
            Claim(f"{model} predicts the density better than I-SSGPR", data, "pll", (model,), ("I-SSGPR",))
            for data in ("toms_hardware", "sarcos", "air_quality", "twitter")
            for model in _BOTH
        ),
        *(
            Claim(f"{model} predicts the density better than SSGP", data, "pll", (model,), ("SSGP",))
            for data in ("sarcos", "air_quality")
            for model in _BOTH
        ),
        *(
            Claim(f"{model} predicts the density about as SSGP does", "twitter", "pll", (model, "SSGP"), within=0.1)
            for model in _BOTH
        ),
        Claim("SSGP predicts the density better than (D)IE-GP", "toms_hardware", "pll", ("SSGP",), _BOTH),
    ),
    paper_trials=101,
    notes=(
        "Kernels with squared lengthscales 10^k, k = -4 to 6; 50 frequencies (2n = 100), v and s2 of each expert by "
        "the evidence of the first 1,000 rows, which are not scored; q = 1e-3 for DIE-GP; I-SSGPR has a lengthscale "
        "for each input. The paper shows the run of median nMSE among 101; the tables here have the "
        "median of all trials.",
        "pll is minus the paper's predictive negative log-likelihood, of the target in standard deviations of the "
        "warm-up. The paper prints curves and no figures, so that its statements alone can be checked.",
        "SSGP is the streaming sparse GP of Bui et al. (2017): a lengthscale for each input, 100 inducing inputs, "
        "100 optimiser steps on the first 1,000 rows and 30 on each batch of 300 after them. AdaRaker (Shen et al. "
        "2019) has the dictionary and 50 frequencies of each kernel, and learns from the first row on; its variance "
        "is the mean square of its last 100 errors, which is ours, since it has none. The paper's running times are "
        "those of another machine.",
    ),
)

TIMES = Reproduction(
    name="ie-gp-times",
    source=f"{PAPER}, 7.1, Fig. 4",
    shows="Running times of the models of ie-gp-regression, each alone, as ratios.",
    uses=REGRESSION.uses[:3],
    work=run_times,
    settings=REGRESSION.settings,
    metrics=("seconds",),
    trials=5,
    paper_trials=101,
    pictures=(),
)


def _under(text: str, data: str, metric: str, ahead: str, behind: str, *, always: bool = False) -> Claim:
    return Claim(text, data, metric, (ahead,), (behind,), always=always)


REGRET = Reproduction(
    name="ie-gp-regret",
    source=f"{PAPER}, App. A, Figs. 9 to 11",
    shows="Bands on 30 rows, and how static and switching regret grow with the rows.",
    uses=(Use("iegp-bands"), Use("iegp-sines"), Use("iegp-switching")),
    work=run_check,
    settings={},
    metrics=("width", "coverage", "regret", "misfit", "regret_per_row"),
    claims=(
        _under("bands are tighter near the rows", "iegp-bands", "width", "near the rows", "far from the rows"),
        *(
            _under("regret grows like log T", "iegp-sines", "misfit", f"{what}: a + b log T", f"{what}: a + b T")
            for what in ("kernels", "bases")
        ),
        _under("Lemma 1 holds", "iegp-sines", "regret", "IE-GP against bases", "Lemma 1's bound", always=True),
        *(
            _under("regret per row falls", "iegp-switching", "regret_per_row", name, f"{name}, shortest stream")
            for name in ("SIE-GP against kernels", "SIE-GP against bases", "own slots against bases")
        ),
        _under(
            "Lemmas 2 and 3 hold for own slots",
            "iegp-switching",
            "regret_per_row",
            "own slots against bases",
            "bound for own slots",
            always=True,
        ),
    ),
    paper_trials=1,
    pictures=("bands", "regret"),
    notes=(
        f"Lengths of the streams: {', '.join(map(str, LENGTHS))}. The paper states neither variances nor features: "
        "here v = 1, the noise's own variance, 50 frequencies, and the dictionary of its experiments on regression.",
        "Regret is in nats, against the best function in hindsight: of the experts' random features ('bases'), for "
        "which Lemma 1 is meant, or of their kernels, as in the paper's figures, which 50 frequencies only come "
        "near.",
        "misfit: root mean squared distance of the regret from the best curve of this form. width: of the 95% bands.",
        "Switching: one stream for each length, its function changes at T/2. SIE-GP trains every expert on every "
        "row, while the paper's Lemma 3 and Theorem 2 need experts that learn from their own slots alone: both are "
        "shown.",
    ),
)
