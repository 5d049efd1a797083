"""The last tenth, surprising rows, axes that one outlier does not decide, and colours that can be told."""

import re

import numpy as np
import polars as pl
import pytest

from streamgp.numerics.formats import clock_within
from streamgp.reports import figures
from streamgp.reports.drawing import Rows, limits, robust_limits
from streamgp.reports.pages import standing
from streamgp.reports.pages.stream import clock
from streamgp.reports.palette import DOTS, FIFTHS, PALETTE


def bins(n: int = 300, each: int = 4) -> tuple[pl.DataFrame, dict[str, np.ndarray]]:
    """Losses of n * each rows, and their sums in bins."""
    rng = np.random.default_rng(0)
    losses = {name: scale * rng.chisquare(1, n * each) for name, scale in (("ours", 1.0), ("a", 2.0), ("b", 1.5))}
    sums = {name: of.reshape(n, each).sum(1) for name, of in losses.items()}
    return pl.DataFrame(sums | {"rows": np.full(n, each)}), losses


def test_the_last_tenth_is_that_of_the_rows():
    scored, losses = bins()
    found = standing.last_tenth(scored, "ours", "rows")
    assert found == pytest.approx((losses["ours"][-120:].mean(), losses["ours"].mean()), rel=1e-12)
    assert standing.last_tenth(scored[:9], "ours", "rows") is None


def test_surprises_are_the_scored_rows_of_least_density():
    density = np.array([-50.0, -1.0, np.nan, -9.0, -3.0, -np.inf])
    frame = pl.DataFrame({"row": range(6), "y": [1.0] * 4 + [None, 2.0], "log_density": density})
    found = standing.surprises(frame.lazy().with_row_index("position"), 1)
    assert [row["row"] for row in found] == [5, 3, 1]


def test_a_few_outliers_do_not_decide_the_axis():
    values = np.random.default_rng(0).normal(size=2000)
    assert robust_limits(values) == limits(values)
    low, high = robust_limits(np.r_[values, 1e6, -1e5])
    assert (low, high) == pytest.approx(limits(values))
    assert robust_limits(np.r_[np.zeros(5), 10.0]) == limits(np.r_[np.zeros(5), 10.0])  # not few of six
    assert robust_limits(np.array([np.nan])) == (0.0, 1.0)


def test_the_first_guess_of_a_warmup_does_not_decide_the_axis():
    """Seen with weekly CO2 from 316 to 373 ppm, whose first row is predicted at 0."""
    y = np.linspace(316.0, 373.0, 100)
    guess = np.r_[210.0, y[1:]]  # the mean of the first bin
    columns = dict.fromkeys(("y_mean", "y_min", "y_max", "q05_min", "q95_max"), y)
    bins = pl.DataFrame({"row": np.arange(100.0), "q50_mean": guess, "scored": np.arange(100) >= 20} | columns)
    drawn = figures.overview(bins, Rows(-0.5, 99.5, 19.5))
    ticks = [float(tick) for tick in re.findall(r">(\d{3})<", drawn)]
    assert ticks and min(ticks) >= 310.0


def test_the_clock_of_the_axis_is_that_of_the_rows():
    frame = pl.DataFrame({"row": np.arange(5000), "time": 1.7e9 + 60.0 * np.arange(5000)}).with_row_index("position")
    found = clock(frame.lazy())
    assert found is not None
    numbers, times = Rows(0.0, 1.0, 0.0, found).clock or ()
    assert 500 <= len(numbers) <= 1000
    np.testing.assert_array_equal(times, 1.7e9 + 60.0 * numbers)
    assert clock(frame.drop("time").lazy()) is None
    assert clock(frame.with_columns(-pl.col("time")).lazy()) is None


def test_times_are_as_short_as_the_chart_allows():
    day = 86400.0
    shown = [clock_within(1.7e9, 1.7e9, 1.7e9 + days * day) for days in (1, 30, 400, 4000)]
    assert shown == ["11-14 22:13", "11-14", "2023-11", "2023"]
    assert clock_within(12.5, 0.0, 100.0) == "12.5"


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("name", [*DOTS, *FIFTHS, "ink", "miss", "muted", "model", "last", "average"])
def test_dots_and_lines_stand_out_from_the_page(name: str):
    """A contrast of three to one (WCAG 2.2, criterion 1.4.11)."""
    for colour, page in zip(PALETTE[name], ("#ffffff", "#12161c"), strict=True):
        low, high = sorted((luminance(colour), luminance(page)))
        assert (high + 0.05) / (low + 0.05) >= 3.0


def test_the_marks_of_the_palette_differ():
    light = [light for light, _ in PALETTE.values()]
    assert len(set(light)) == len(light)  # by them a drawing's colours are found
