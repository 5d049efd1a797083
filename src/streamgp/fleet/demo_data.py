"""The table of ``streamgp demo --fleet``: life expectancy of countries, from the package bokeh_sampledata."""

from pathlib import Path
from typing import NamedTuple

import polars as pl

from streamgp.table.demo import packaged


class FleetDemoData(NamedTuple):
    """The contents of the written table: the names of its columns, and the source of the numbers."""

    target: str
    key: str
    group: str
    time: str
    description: str
    source: str
    licence: str


def write_fleet_demo_csv(path: Path) -> FleetDemoData:
    """Write the demo's table as a CSV file: a row for every country and year of 1965 to 2013, year by year.

    The inputs are those of the year before: they are known when the target is not.

    Parameters
    ----------
    path
        The file to write.

    Raises
    ------
    ImportError
        If bokeh_sampledata, which carries the numbers, is not installed.
    """
    before = [pl.col("fertility"), pl.col("population").log().alias("log_population")]
    years = pl.read_csv(packaged("gapminder.csv.gz"))
    regions = pl.read_csv(packaged("gapminder_regions.csv")).select(country="Country", region="Group")
    table = (
        years.sort("country", "year")
        .with_columns(each.shift(1).over("country").name.suffix("_last_year") for each in before)
        .filter(pl.col("life_expectancy").is_not_null().any().over("country"), pl.col("year") > 1964)
        .join(regions, on="country", how="left")
        .select("country", pl.col("region").fill_null("none"), "year", "^.*_last_year$", "life_expectancy")
        .sort("year", "country")
    )
    table.write_csv(path, float_precision=5)
    return FleetDemoData(
        target="life_expectancy",
        key="country",
        group="region",
        time="year",
        description=(
            f"Life expectancy (years) of {table['country'].n_unique()} countries, a year ahead: from its last "
            "values, and from children per woman and population of the year before. Countries belong to regions."
        ),
        source="gapminder.csv.gz of the Python package bokeh_sampledata (Gapminder.org)",
        licence="CC BY 2.0 (the package: BSD-3-Clause)",
    )
