"""The calendar as inputs: against dates counted by hand."""

from datetime import UTC, date, datetime

import numpy as np
import pytest

from streamgp.table.calendar import CYCLES, calendar_columns, calendar_names, calendar_width, holidays_of

HOLIDAYS = ("holidays DE",)


def seconds(*dates: datetime) -> np.ndarray:
    return np.array([each.replace(tzinfo=UTC).timestamp() for each in dates])


def test_days_weeks_and_years_are_sines_and_cosines_of_their_length():
    times = 1.6e9 + 7_777.0 * np.arange(50)
    found = calendar_columns(times, ("day", "week", "year"))
    angles = [2.0 * np.pi * times / length for length in (86_400.0, 604_800.0, 31_556_952.0)]
    want = np.stack([f(angle) for angle in angles for f in (np.sin, np.cos)], axis=1)
    np.testing.assert_allclose(found, want, atol=1e-9)


def test_a_month_goes_from_its_first_day_to_its_last():
    times = seconds(datetime(2024, 2, 1), datetime(2024, 2, 8, 6), datetime(2024, 2, 15, 12), datetime(1969, 4, 16))
    # A quarter of 29 days is a week and 6 hours; of the 30 days of April 15 are half.
    want = [[0.0, 1.0], [1.0, 0.0], [0.0, -1.0], [0.0, -1.0]]
    np.testing.assert_allclose(calendar_columns(times, ("month",)), want, atol=1e-9)


def test_holidays_are_one_all_day_long():
    times = seconds(*(datetime(2024, *day, hour) for day in ((1, 1), (5, 1), (10, 3), (10, 4)) for hour in (0, 23)))
    np.testing.assert_array_equal(calendar_columns(times, HOLIDAYS)[:, 0], [1, 1, 1, 1, 1, 1, 0, 0])
    assert date(2024, 12, 26).isoformat() in holidays_of("DE", 2024)
    assert "2024-11-01" in holidays_of("DE-BY", 2024) and "2024-11-01" not in holidays_of("DE", 2024)


@pytest.mark.parametrize("country", ["XX", "DE-XX", ""])
def test_an_unknown_country_is_refused(country: str):
    with pytest.raises(ValueError, match=r"^holidays: expected the code of a country"):
        holidays_of(country, 2024)


def test_what_is_no_time_has_no_place_in_the_calendar():
    entries = (*CYCLES, *HOLIDAYS)
    found = calendar_columns(np.array([np.nan, 1.6e9, 1e15]), entries)
    assert found.shape == (3, calendar_width(entries)) == (3, len(calendar_names("when", entries)))
    assert np.isnan(found[0]).all() and np.isfinite(found[1]).all()
    assert calendar_names("when", ("day", *HOLIDAYS)) == [
        "when sine of day",
        "when cosine of day",
        "when holidays DE",
    ]
    assert calendar_columns(np.zeros(4), ()).shape == (4, 0)
