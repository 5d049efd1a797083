"""The data sets of the papers: the file of each, its contents and its origin."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sklearn.datasets import make_friedman1, make_friedman2

from streamgp_papers.generated import STATIC_ROWS, Stream, constructed, friedman

UCI_DATASETS = "github.com/treforevans/uci_datasets"
UCI = "UCI Machine Learning Repository (archive.ics.uci.edu)"
TORGO = "Luis Torgo's regression collection (www.dcc.fc.up.pt/~ltorgo/Regression)"
LIBSVM = "LIBSVM's data sets (www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets)"
BANANA = "Rätsch, Onoda and Müller (2001), as packaged by river (its datasets.Bananas)"
OIL = "Bishop and James (1993), oilFlow3Class of pmtkdata (github.com/probml/pmtkdata)"
MNIST = "LeCun, Cortes and Burges, MNIST"
SPARQ = "Mauduit, Berthier and Simonetto"
RAKER = "the authors of AdaRaker, as distributed with their code (github.com/N1cekiko/AdaRaker)"


@dataclass(frozen=True)
class DataSet:
    """A table of a paper, or one that stands in for it.

    Attributes
    ----------
    title
        Its name in the paper, or among its users.
    rows, inputs
        Its size, in the paper where the paper uses it.
    origin
        Its authors and its address; of generated data, the recipe.
    file
        Its Parquet file in the data directory; empty where the rows are generated.
    drop
        Columns of the file that are neither input nor target.
    note
        The difference from the paper's data, if there is one.
    doubt
        The reason why it may not be the paper's data, whatever its size.
    generate
        A function that makes so many rows; None where the run itself makes them.
    target
        The column of the file that holds the target.
    order
        Of the rows: as in the file, ``"shuffled"`` by the run's seed, or ``"sorted"`` by the first input.
    max_label
        The greatest label whose rows are kept; None where all are.
    constant
        How many of the paper's inputs never change: they may have been left out.
    """

    title: str
    rows: int
    inputs: int
    origin: str
    file: str = ""
    drop: tuple[str, ...] = ()
    note: str = ""
    doubt: str = ""
    generate: Callable[[int], Stream] | None = None
    target: str = "y"
    order: str = ""
    max_label: int | None = None
    constant: int = 0


def _uci(name: str, rows: int, inputs: int) -> DataSet:
    note = {"autos": "24 inputs here, of the paper's 25", "sml": "22 inputs here, of the paper's 26"}.get(name, "")
    origin = f"{UCI}; file as packaged by {UCI_DATASETS}"
    constant = {"autos": 1, "sml": 4}.get(name, 0)
    return DataSet(name, rows, inputs, origin, f"{name}.parquet", note=note, constant=constant)


_TORQUES = tuple(f"y{joint}" for joint in range(2, 8))
DATASETS: dict[str, DataSet] = {
    "friedman1": DataSet(
        "Friedman #1",
        40_000,
        10,
        "generated: Friedman (1991) by scikit-learn, noise 0.1, seed 0",
        generate=partial(friedman, make_friedman1, 0.1),
    ),
    "friedman2": DataSet(
        "Friedman #2",
        40_000,
        4,
        "generated: Friedman (1991) by scikit-learn, noise 1, seed 0",
        generate=partial(friedman, make_friedman2, 1.0),
    ),
    "constructed": DataSet(
        "Constructed",
        5_000,
        2,
        f"generated: one rule for {STATIC_ROWS:,} rows, which then walks (Waxman and Djuric 2024, 5.2)",
        doubt="made up here by the paper's recipe",
        generate=constructed,
    ),
    "iegp-bands": DataSet("Sines, 30 rows", 30, 1, "generated: sin 2x + sin 3x, x ~ N(0, 1)"),
    "iegp-sines": DataSet("Sines", 1_600, 1, "generated: sin 2x + sin 3x, x ~ N(0, 100)"),
    "iegp-switching": DataSet("Switching GPs", 1_600, 1, "generated: two Gaussian processes, one after the other"),
    "iegp-counterexamples": DataSet("Counterexamples", 1_000, 1, "made for the lemmas, see regret.md"),
    "elevators": DataSet(
        "Elevators",
        16_599,
        17,
        f"{TORGO}; file as packaged by {UCI_DATASETS}",
        "elevators_ucids.parquet",
        note="18 inputs here: the paper's scripts leave out one, and do not say why",
    ),
    "sarcos": DataSet(
        "SARCOS",
        44_484,
        21,
        "Vijayakumar and Schaal (2000), training part, sarcos_inv.mat (www.gaussianprocess.org/gpml/data), "
        "first torque",
        "sarcos.parquet",
        _TORQUES,
    ),
    "sarcos_inv_test": DataSet(
        "SARCOS, test part",
        4_449,
        21,
        "Vijayakumar and Schaal (2000), sarcos_inv_test.mat (www.gaussianprocess.org/gpml/data), first torque",
        "sarcos_inv_test.parquet",
        _TORQUES,
    ),
    "kuka1": DataSet(
        "Kuka #1",
        197_920,
        21,
        "Meier, Hennig and Schaal (2014), first torque of the first recording of a Kuka arm, from its authors",
        "kuka1.parquet",
        _TORQUES,
    ),
    "schunk_arm": DataSet(
        "Schunk arm",
        67_450,
        12,
        "Liu and Althoff (2018), Reachset conformance of forward dynamic models, measurements of a six-axis arm; "
        "angles and velocities as inputs, torque of the first joint",
        "schunk_arm.parquet",
        ("traj", "time", *_TORQUES[:5]),
    ),
    "cadata": DataSet("CaData", 20_640, 8, f"Pace and Barry (1997), {LIBSVM}", "cadata.parquet"),
    "cpusmall": DataSet("CPU small", 8_192, 12, f"Delve developers (1996), {LIBSVM}", "cpusmall.parquet"),
    "toms_hardware": DataSet("Tom's hardware", 9_725, 96, f"Kawala et al. (2013), {RAKER}", "toms_hardware.parquet"),
    "air_quality": DataSet(
        "Air quality",
        7_322,
        12,
        f"De Vito et al. (2008), {RAKER}",
        "air_quality_raker.parquet",
        note="13 inputs here, as its distributors have it; the paper says 12",
    ),
    "twitter": DataSet(
        "Twitter",
        13_813,
        77,
        f"Kawala et al. (2013), {RAKER}",
        "twitter_buzz.parquet",
        doubt="the paper states no size of it",
    ),
    **{
        name: _uci(name, rows, inputs)
        for name, rows, inputs in (
            ("autos", 159, 25),
            ("servo", 167, 4),
            ("machine", 209, 7),
            ("yacht", 308, 6),
            ("autompg", 392, 7),
            ("housing", 506, 13),
            ("stock", 536, 11),
            ("energy", 768, 8),
            ("concrete", 1_030, 8),
        )
    },
    "airfoil": DataSet("airfoil", 1_503, 5, f"{UCI}; file as packaged by {UCI_DATASETS}", "airfoil_ucids.parquet"),
    **{
        name: _uci(name, rows, inputs)
        for name, rows, inputs in (
            ("gas", 2_565, 128),
            ("skillcraft", 3_338, 19),
            ("sml", 4_137, 26),
            ("pol", 15_000, 26),
            ("bike", 17_379, 17),
            ("kin40k", 40_000, 8),
        )
    },
    **{
        name + suffix: DataSet(
            title + (", shuffled" if suffix else ""),
            rows,
            inputs,
            f"{UCI}, in the order of its file",
            f"{file}.parquet",
            drop=drop,
            target=target,
            order="shuffled" if suffix else "",
        )
        for name, title, rows, inputs, file, target, drop in (
            ("airfoil-file", "Airfoil", 1_503, 5, "airfoil", "y", ()),
            ("concrete-file", "Concrete", 1_030, 8, "concrete", "y", ()),
            ("naval-lever", "Naval, lever position", 11_934, 15, "naval", "x0", ("y", "y2")),
            ("wine-white", "Wine (white)", 4_898, 11, "wine_white", "y", ()),
        )
        for suffix in ("", "-shuffled")
    },
    "mkl-sines": DataSet("Growing, sines", 16_384, 3, "generated: sines of three inputs, with noise"),
    "mkl-plane": DataSet("Growing, a plane", 16_384, 3, "generated: a plane over three inputs, with noise"),
    "banana": DataSet("Banana", 5_300, 2, BANANA, "banana.parquet", target="label"),
    "banana-shuffled": DataSet(
        "Banana, shuffled", 5_300, 2, BANANA, "banana.parquet", target="label", order="shuffled"
    ),
    "banana-sorted": DataSet("Banana, sorted", 5_300, 2, BANANA, "banana.parquet", target="label", order="sorted"),
    "musk": DataSet(
        "Musk",
        6_598,
        166,
        f"Dietterich, Lathrop and Lozano-Perez (1997), Musk (version 2), {UCI}",
        "musk2.parquet",
        target="label",
        order="shuffled",
    ),
    "abalone": DataSet("Abalone", 4_177, 8, f"Nash et al. (1994), {UCI}; sex as 0, 1, 2", "abalone.parquet"),
    "pumadyn8nm": DataSet("Pumadyn 8nm", 8_192, 8, "Corke (1996), Delve", "pumadyn8nm.parquet"),
    "bathymetry_celt": DataSet(
        "Celtic Sea",
        201_180,
        2,
        "Pante and Simon-Bouhet (2013), marmap (CRAN; celt): NOAA's ETOPO1, depths on a grid",
        "bathymetry_celt.parquet",
    ),
    "elevation_rockies": DataSet(
        "Rocky Mountains",
        69_938,
        2,
        "Nychka et al., fields (CRAN; RMelevation): heights on a grid",
        "elevation_rockies.parquet",
    ),
    "two-regimes": DataSet(
        "Two regimes", 3_000, 1, "generated: two Gaussian processes, one after the other along a line"
    ),
    "moving-bump": DataSet("Moving bump", 500, 1, f"generated: {SPARQ}, Section 4.1, on 1,001 points"),
    "moving-bump-0.3": DataSet(
        "Moving bump, omega 0.3", 500, 1, f"generated: {SPARQ}, Section 4.1, with omega = 0.3"
    ),
    "moving-bump-1": DataSet("Moving bump, omega 1", 500, 1, f"generated: {SPARQ}, Section 4.1, with omega = 1"),
    "moving-bump-wide": DataSet("Moving bump, wide", 500, 1, f"generated: {SPARQ}, Section 4.1, on [-200, 200]"),
    "moving-bump-new": DataSet(
        "New optimum",
        500,
        1,
        f"generated: {SPARQ}, Section 4.1, and half-way a second bump, twice as high, at x = 35",
    ),
    "moving-motor": DataSet(
        "Motor", 300, 2, "generated: the gains of a PI controller of a motor whose inertia swings 16-fold"
    ),
    "epa-ozone": DataSet(
        "Ozone around New York",
        20_440,
        2,
        "US Environmental Protection Agency: daily ozone of 28 sensors over two years, which the paper does not name",
        "epa_ozone.parquet",
    ),
    "ny-ozone": DataSet(
        "New York ozone",
        1_736,
        2,
        "Bakar and Sahu (2015), spTimer (CRAN; NYdata): EPA monitors, 28 stations on 62 days of 2006",
        "ny_ozone.parquet",
    ),
    "midwest-ozone": DataSet(
        "Midwest ozone",
        13_617,
        2,
        "Nychka et al., fields (CRAN; ozone2): 153 stations on 89 days of 1987",
        "midwest_ozone.parquet",
    ),
    "oil-flow": DataSet(
        "Oil flow", 1_000, 12, f"{OIL}, DataTrn", "oil_flow.parquet", target="label", order="shuffled"
    ),
    "usps": DataSet(
        "USPS, digits 0 to 4",
        5_474,
        256,
        "Hull (1994), zip.train and zip.test of ElemStatLearn (CRAN); 5,427 rows here",
        "usps.parquet",
        ("split",),
        target="label",
        order="shuffled",
        max_label=4,
    ),
    "mnist": DataSet("MNIST", 70_000, 784, MNIST, "mnist.parquet", target="label", order="shuffled"),
    "mnist-3000": DataSet(
        "MNIST, 3,000 test images",
        3_000,
        784,
        f"{MNIST}; 3,000 of the test images, others for every seed",
        "mnist_t10k.parquet",
        target="label",
        order="shuffled",
    ),
    "mnist-t10k": DataSet(
        "MNIST, test images",
        10_000,
        784,
        f"{MNIST}; the test images",
        "mnist_t10k.parquet",
        target="label",
        order="shuffled",
    ),
    "ionosphere": DataSet(
        "Ionosphere",
        351,
        34,
        f"Sigillito et al. (1989), {UCI}",
        "ionosphere.parquet",
        target="label",
        note="33 inputs here: the other one never changes",
        constant=1,
    ),
}
