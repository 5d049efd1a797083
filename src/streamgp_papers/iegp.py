"""The figures of Lu, Karanikolas and Giannakis (2022), Incremental ensembles of Gaussian processes."""

from typing import Any

from streamgp.models.presets import IE_GP_DICTIONARY
from streamgp_papers.bank import Family
from streamgp_papers.kinds import Claim, Reproduction, Use
from streamgp_papers.mixing import Mix
from streamgp_papers.regret import LENGTHS, run_check
from streamgp_papers.running_times import run_times
from streamgp_papers.stream import run_stream
from streamgp_papers.verdicts import MIN_TOLERANCE

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
        *(
            Claim(f"{model} errs less than its baselines", "toms_hardware", "nmse", (model,), _BASELINES)
            for model in _BOTH
        ),
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
            Claim(
                f"{model} predicts the density about as SSGP does",
                "twitter",
                "pll",
                (model, "SSGP"),
                within=MIN_TOLERANCE,
            )
            for model in _BOTH
        ),
        *(
            Claim(f"SSGP predicts the density better than {model}", "toms_hardware", "pll", ("SSGP",), (model,))
            for model in _BOTH
        ),
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
        "is the mean square of its last 100 errors, which is ours, since it has none.",
    ),
)

_UNNAMED = "the paper does not name that model, here SSGP is taken"
TIMES = Reproduction(
    name="ie-gp-times",
    source=f"{PAPER}, 7.1, Fig. 4",
    shows="Running times of the models of ie-gp-regression, each alone, as ratios.",
    uses=REGRESSION.uses[:3],
    work=run_times,
    settings=REGRESSION.settings,
    metrics=("seconds",),
    claims=(
        *(
            Claim(f"{model} takes the least time", "toms_hardware", "seconds", (model,), _BASELINES)
            for model in _BOTH
        ),
        *(
            Claim(
                f"SSGP takes over 100 times as long as {model}",
                "toms_hardware",
                "seconds",
                (model,),
                ("SSGP",),
                times=100,
            )
            for model in _BOTH
        ),
        *(
            Claim(
                f"{model} takes below 0.3% of the time of the closest in nMSE",
                "toms_hardware",
                "seconds",
                (model,),
                ("SSGP",),
                times=1 / 0.003,
                doubt=_UNNAMED,
            )
            for model in _BOTH
        ),
        *(
            Claim(
                "DIE-GP takes below a tenth of the time of the second in nMSE",
                data,
                "seconds",
                ("DIE-GP",),
                ("SSGP",),
                times=10,
                doubt=_UNNAMED,
            )
            for data in ("sarcos", "air_quality")
        ),
    ),
    trials=5,
    paper_trials=101,
    pictures=(),
    notes=(
        "Seconds of processor time of one core, of the fit on the first 1,000 rows and of the stream; what is "
        "compiled counts in the first trial. Ratios alone say something: the paper's seconds are of another machine "
        "and of other programs.",
        "(D)IE-GP here runs all eleven experts on all rows; the paper leaves out those whose weight is zero. "
        "I-SSGPR is fitted from three starts.",
    ),
)


def _under(text: str, data: str, metric: str, ahead: str, behind: str, **changes: Any) -> Claim:
    return Claim(text, data, metric, (ahead,), (behind,), **changes)


_UNSTATED = "the paper states neither variances nor features"
_OWN_SLOTS = "the paper's algorithm has experts learn from all rows, not from their own slots"
REGRET = Reproduction(
    name="ie-gp-regret",
    source=f"{PAPER}, App. A, Figs. 9 to 11",
    shows="Bands on 30 rows, and how static and switching regret grow with the rows.",
    uses=(Use("iegp-bands"), Use("iegp-sines"), Use("iegp-switching"), Use("iegp-counterexamples")),
    work=run_check,
    settings={},
    metrics=("width", "coverage", "regret", "misfit", "regret_per_row"),
    claims=(
        _under(
            "bands are tighter near the rows",
            "iegp-bands",
            "width",
            "near the rows",
            "far from the rows",
            doubt=_UNSTATED,
        ),
        *(
            _under(
                "regret is O(log T): a log curve fits better than a line",
                "iegp-sines",
                "misfit",
                f"{what}: a + b log T",
                f"{what}: a + b T",
                open="a bound for all T, which these lengths cannot decide",
            )
            for what in ("kernels", "bases")
        ),
        _under("Lemma 1 holds", "iegp-sines", "regret", "IE-GP against bases", "Lemma 1's bound", always=True),
        *(
            _under(
                "regret per row falls",
                "iegp-switching",
                "regret_per_row",
                name,
                f"{name}, shortest stream",
                doubt=_OWN_SLOTS if name.startswith("own") else _UNSTATED,
            )
            for name in ("SIE-GP against kernels", "SIE-GP against bases", "own slots against bases")
        ),
        _under(
            "Lemmas 2 and 3 hold for SIE-GP",
            "iegp-switching",
            "regret_per_row",
            "SIE-GP against bases",
            "bound for own slots",
            always=True,
        ),
        _under(
            "Lemmas 2 (corrected) and 3 hold for own slots",
            "iegp-switching",
            "regret_per_row",
            "own slots against bases",
            "bound for own slots",
            always=True,
            doubt=_OWN_SLOTS,
        ),
        *(
            _under(text, "iegp-counterexamples", "regret", name, bound, always=True, doubt=doubt)
            for text, name, bound, doubt in (
                ("Lemma 2 holds as printed", "switching experts", "Lemma 2's bound, as printed", ""),
                (
                    "Lemma 2 holds, corrected",
                    "switching experts",
                    "Lemma 2's bound, corrected",
                    "not as the paper prints it",
                ),
                ("Lemma 3 holds for SIE-GP", "SIE-GP's experts", "Lemma 3's bound", ""),
                ("Lemma 3 holds for own slots", "experts of their own slots", "Lemma 3's bound", _OWN_SLOTS),
            )
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
        "shown. There are two experts, where Lemma 2 as printed and corrected are the same.",
        "Counterexamples: Lemma 2 as printed lacks S log(M - 1), Lemma 3 is false for experts that learn all rows "
        "(see regret.md). Nothing in them is random.",
    ),
)
