"""The tables that charts and the page of an evaluation are made from, as the command writes them."""

from typing import Any

import numpy as np
import polars as pl

from streamgp.reports.run_page import weight_columns
from streamgp.reports.tables import RULE, as_kept, as_series, keep_weights


def predictions(kept: np.ndarray, table: dict[str, np.ndarray]) -> pl.LazyFrame:
    """Return the table of the predictions of the rows that were kept."""
    frame = pl.DataFrame([as_series(name, each) for name, each in ({"row": kept} | table).items()])
    return frame.lazy().with_row_index("position")


def weights(
    kept: np.ndarray, by_row: np.ndarray | None, rules: dict[str, np.ndarray], about: dict[str, Any]
) -> pl.LazyFrame:
    """Return the table of weights; without them, one of no columns but the rows'."""
    if by_row is None:
        return pl.DataFrame({"row": kept[:0]}).lazy().with_row_index("position")
    by_fit = kept[np.isfinite(by_row[kept, 0])]
    rows = by_fit[keep_weights(np.arange(len(by_fit)))]
    experts = dict(zip((e["name"] for e in about["experts"]), as_kept(by_row[rows].T), strict=False))
    of_rules = {RULE + name: as_kept(shares[rows]) for name, shares in rules.items()}
    table = pl.DataFrame({"row": rows} | experts | of_rules)
    return table.select("row", *(weight_columns(about) if len(by_fit) else [])).lazy().with_row_index("position")
