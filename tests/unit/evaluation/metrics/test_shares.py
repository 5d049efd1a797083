"""Percents where forecasts are made, shares of one elsewhere: either is refused in place of the other."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from streamgp.evaluation.conformal import Conformal
from streamgp.evaluation.conformal_sets import ConformalSets
from streamgp.evaluation.metrics import interval_score, paired_interval, pinball
from streamgp.evaluation.metrics.shares import in_percent, percents, probabilities, share
from streamgp.fleet.forecasts import checked

NAN = float("nan")


def test_numbers_of_every_make_are_taken():
    assert percents("level", 90) == percents("level", np.int64(90)) == percents("level", np.array([90.0])) == [90.0]
    assert percents("level", (80, 97.5)) == percents("level", pd.Series([80, 97.5])) == [80.0, 97.5]
    assert percents("level", []) == probabilities("quantiles", ()) == []
    assert share("coverage", np.float64(0.9)) == share("coverage", np.array(0.9)) == 0.9
    assert probabilities("quantiles", [0.05, 0.5]) == [0.05, 0.5]


@pytest.mark.parametrize(
    "given", [0, 1, 1.0, 100, 120, -5, NAN, np.inf, True, "90", None, [80, "95"], {80: 95}, [[80]]]
)
def test_what_is_no_percent_is_refused(given: Any):
    with pytest.raises(ValueError, match=r"^level: expected percents above 1 and below 100, such as 90, got "):
        percents("level", given)


@pytest.mark.parametrize("given", [0, 1, 0.0, -0.1, 100.0, NAN, True, "0.9", None, [0.9], np.array([0.9])])
def test_what_is_no_share_is_refused(given: Any):
    with pytest.raises(ValueError, match=r"^coverage: expected a share strictly between 0 and 1, such as 0\.9, got "):
        share("coverage", given)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: probabilities("quantiles", [0.5, 1e-320]),
            r"from 1e-10 to 0\.9999999999, got \[0\.5, 1e-320\]; ",
        ),
        (
            lambda: probabilities("quantiles", 1.0 - 2.0**-53),
            r"from 1e-10 to .*, got 0\.9999999999999999; no ",
        ),
        (
            lambda: percents("level", np.nextafter(100.0, 0.0)),
            r"level: expected percents of at most 99\.99999998",
        ),
        (
            lambda: share("coverage", 1.0 - 2.0**-53),
            r"coverage: expected a share of at most 0\.9999999998, ",
        ),
        (lambda: pinball([0.0], 5e-324, [0.5]), r"levels: expected probabilities from 1e-10 to 0\.9999999999, got "),
        (lambda: Conformal(1.0 - 2.0**-53, ["y"]), r"conformal: expected a share of at most 0\.9999999998, got "),
        (lambda: checked(3, np.nextafter(100.0, 0.0)), r"level: expected percents of at most 99\.99999998"),
    ],
)
def test_levels_next_to_0_and_1_are_refused(call: Callable[[], Any], message: str):
    with pytest.raises(ValueError, match=message):
        call()


def test_levels_at_the_limits_are_taken():
    assert probabilities("quantiles", [1e-10, 1.0 - 1e-10]) == [1e-10, 1.0 - 1e-10]
    assert percents("level", [99.99999998, 1.0 + 2.0**-52]) == [99.99999998, 1.0 + 2.0**-52]
    assert share("coverage", 1.0 - 2e-10) == 1.0 - 2e-10
    assert share("coverage", 5e-324) == 5e-324  # a band of next to nothing is one


def test_percents_that_differ_in_the_last_digit_are_two():
    assert percents("level", [90.0, np.nextafter(90.0, 91.0)]) == [90.0, 90.00000000000001]


@pytest.mark.parametrize("given", ["0.9999999", "0.29", "0.07"])
def test_the_error_names_the_same_number_in_the_other_unit(given: str):
    with pytest.raises(ValueError, match=r"pass level=") as found:
        percents("level", float(given))
    assert Decimal(str(found.value).rpartition("level=")[2]) == 100 * Decimal(given)


@pytest.mark.parametrize(("value", "text"), [(0.9, "90%"), (0.29, "29%"), (0.99999999, "99.999999%"), (1.0, "100%")])
def test_shares_are_written_in_percent_to_all_their_digits(value: float, text: str):
    assert in_percent(value) == text


def test_percents_that_are_there_twice_are_refused():
    with pytest.raises(ValueError, match=r"level: expected percents that differ, got \(80, 80\.0\)"):
        percents("level", (80, 80.0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: percents("level", 0.9), r"got 0\.9; for a band of 90% pass level=90$"),
        (lambda: percents("level", (0.8, 0.95)), r"got \(0\.8, 0\.95\); for a band of 80% pass level=80$"),
        (lambda: checked(3, 0.95), r"level: .*; for a band of 95% pass level=95$"),
        (lambda: share("coverage", 90), r"got 90; for 90% pass 0\.9$"),
        (
            lambda: probabilities("quantiles", [5, 95]),
            r"quantiles: .*got \[5, 95\]; for the quantile of 5% pass 0\.05$",
        ),
        (lambda: Conformal(90, ["y"]), r"conformal: expected a share .* for 90% pass 0\.9$"),
        (lambda: ConformalSets(95), r"conformal: expected a share .* for 95% pass 0\.95$"),
        (lambda: interval_score([0.0], [1.0], [0.5], 90), r"coverage: .* for 90% pass 0\.9$"),
        (lambda: pinball([0.0], 95, [0.5]), r"levels: expected probabilities .* pass 0\.95$"),
        (lambda: percents("level", 1), r"got 1; 1 is 1% to some and all to others: .* nearly all pass level=99$"),
        (lambda: percents("level", [1]), r"got \[1\]; 1 is 1% to some .* pass level=99$"),
        (lambda: percents("level", (80, 100)), r"got \(80, 100\); nothing holds all .* pass level=99$"),
        (lambda: checked(3, 1.0), r"level: .*; 1 is 1% to some .* pass level=99$"),
        (lambda: share("coverage", 1), r"got 1; 1 is 1% to some .*: for 1% pass 0\.01, for nearly all 0\.99$"),
        (lambda: share("coverage", 100), r"got 100; nothing holds all .* 0\.99$"),
        (lambda: probabilities("quantiles", [0.5, 1]), r"got \[0\.5, 1\]; 1 is 1% .* pass 0\.01, .* below 0\.99$"),
        (lambda: Conformal(1, ["y"]), r"conformal: .*; 1 is 1% to some .* nearly all 0\.99$"),
        (lambda: interval_score([0.0], [1.0], [0.5], 1), r"coverage: .*; 1 is 1% to some .* 0\.99$"),
        (lambda: paired_interval(np.zeros(9), np.ones(9), 95), r"coverage: .* for 95% pass 0\.95$"),
    ],
)
def test_the_error_says_what_to_pass_instead(call: Callable[[], Any], message: str):
    with pytest.raises(ValueError, match=message):
        call()
