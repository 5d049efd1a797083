"""The experiment of Lu, Karanikolas and Giannakis with latent variable models."""

from streamgp_papers.embeddings import run
from streamgp_papers.kinds import Claim, Reproduction, Use

_RULE, _ONE_START, _BATCH = ("the paper's rule",), ("the paper's rule, one start",), ("batch GPLVM",)
_FIVE_STARTS = "a row's place is sought from five starts, the paper's from one (Remark 3)"
_OURS = "the batch GPLVM is ours"

IE_GPLVM = Reproduction(
    name="ie-gplvm",
    source="Lu, Karanikolas and Giannakis (2022), Section 6 and Figure 7",
    shows="Rows in two coordinates: how many have a nearest neighbour there with another label, in percent.",
    uses=(Use("oil-flow"), Use("usps"), Use("mnist", ("mnist-3000", "mnist-t10k"))),
    work=run,
    settings={},
    metrics=("error", "seconds", "fill_rmse", "coverage"),
    claims=(
        Claim("Oil: an error below 1%", "oil-flow", "error", _ONE_START, number=1.0),
        Claim("Oil: an error below 1%", "oil-flow", "error", _RULE, number=1.0, doubt=_FIVE_STARTS),
        Claim("Oil: it errs about as GPLVM", "oil-flow", "error", _ONE_START, _BATCH, within=1.0, doubt=_OURS),
        Claim(
            "Oil: over ten times as fast as GPLVM", "oil-flow", "seconds", _ONE_START, _BATCH, times=10.0, doubt=_OURS
        ),
        *(
            Claim("IE-GPLVM errs less than PCA methods", data, "error", _RULE, ("PCA", "IncrementalPCA", "KernelPCA"))
            for data in ("oil-flow", "usps", "mnist")
        ),
        *(
            Claim(f"IE-GPLVM {what} than GPLVM", data, metric, _RULE, _BATCH, doubt=_OURS)
            for what, metric in (("errs less", "error"), ("takes less time", "seconds"))
            for data in ("usps", "mnist")
        ),
    ),
    trials=11,
    paper_trials=11,
    pictures=(),
    notes=(
        "The error is that of the nearest neighbour among all other rows, in places as they were given when the rows "
        "came. Rows come in shuffled order; the warm-up is a tenth of them, of all MNIST images a twentieth. The "
        "paper has plots only, no figures.",
        "'IE-GPLVM' is what StreamingGPLVM gives out: the places of the expert that leads at the end, which is one "
        "embedding. The paper's rule takes each row's place from the expert that explains it best, though every "
        "expert has coordinates of its own; 'aligned': after these are turned, stretched and moved to fit those of "
        "the one that explains the warm-up best, on the warm-up's rows.",
        "'copy of the nearest row' is a control: after the warm-up each row gets the place of its nearest row before "
        "it, and nothing is learnt. What a method gains over it is its own.",
        "varGPLVM and onGPLVM, with which the paper compares errors and times as well, were not run.",
        "'placed again at the end': all rows by transform, after all were learnt. 'one start', 'ten starts': a row's "
        "place is sought from those of so many neighbours, in place of five. 'row by row': batches of one.",
        "'30% of entries missing': at random, in the warm-up too. fill_rmse and coverage (of 95% bands) are of the "
        "missing entries after the warm-up, filled in at the end (the model never saw them); below it, the warm-up's "
        "means.",
        "PCA, KernelPCA, UMAP of all rows and batch GPLVM look at all rows at once, which a stream does not allow. "
        "KernelPCA has the variance 2^k, k = -10..10, that is best for the labels of 1,000 rows; its search is not "
        "timed. batch GPLVM: as the warm-up, 300 steps from PCA, with the kernel that explains the warm-up's rows "
        "best; its search is timed. UMAP has its default settings.",
    ),
)
