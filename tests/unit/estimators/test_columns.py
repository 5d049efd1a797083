"""What a column of text is: what most of the first cells are that are not missing."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from streamgp.estimators.columns import Columns
from streamgp.models.registry import make_spec
from streamgp.stream.categories import Categories
from streamgp.stream.learn_step import FIRST_LEVELS
from streamgp.stream.learner import StreamLearner
from streamgp.stream.settings import StreamSettings


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame], ids=["polars", "pandas"])
@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([None, "north", "south"], "category"),
        (["12", "north", "south"], "category"),
        (["unknown", "1.5", "2.5", "3"], "number"),
        ([None, "1.5"], "number"),
        ([None, None], "number"),
        (["none so far", "2026-01-01", "2026-01-02"], "date"),
    ],
)
def test_a_column_is_what_most_of_its_first_cells_are(make: type, cells: list, kind: str):
    assert Columns.of_first(make({"x": cells}), None, ("auto",)).kinds == (kind,)
    if kind == "date":
        with pytest.warns(UserWarning, match="dates are left out"):
            assert Columns.of_first(make({"x": cells}), None, ()).kinds == ("other date",)


def test_levels_have_columns_from_the_first_sixteen_rows_on():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=18), np.arange(18) % 3])
    learner = StreamLearner(
        StreamSettings(make_spec("linear"), num_inputs=2, warmup=60, categories=Categories.unknown((1,)))
    )
    widths = []
    for i in range(18):
        next(learner.learn(X[i : i + 1], X[i : i + 1, :1]))
        widths.append(learner.categories.levels[0])
    assert widths == [1] * (FIRST_LEVELS - 1) + [3] * 3
