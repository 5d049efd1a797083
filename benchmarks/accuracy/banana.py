"""The random walks of `streamgp reproduce doebe-banana` with several variances, and with two boxes of an HSGP.

Waxman and Djuric (2024, App. A) find moving experts ahead on Banana from left to right. ``python -m
benchmarks.accuracy.banana --data DIR`` runs the optima of their families there with other variances q of the walk,
all absolute, and HSGPs whose box is that of all rows, as in the paper's code; it renders the table of
docs/research/reproduction.md.
"""

from pathlib import Path
from typing import Annotated

import jax
import numpy as np
import typer
from jax import numpy as jnp

from benchmarks.common.markdown import put
from benchmarks.common.paths import DOCS
from streamgp.bases import BASES
from streamgp.filters.dynamics import random_walk, static
from streamgp.numerics import keys
from streamgp.numerics.standardise import Standardiser
from streamgp_papers import doebe
from streamgp_papers.bank import Member
from streamgp_papers.classification_stream import LOGISTIC, ClassificationScorer, stream_classes
from streamgp_papers.data_files import load
from streamgp_papers.mixing import Mix
from streamgp_papers.stream import score

WALKS = (0.0, 1e-3, 1e-2, 1e-1, 1.0)
PAGE = DOCS / "research" / "reproduction.md"


def main(data: Annotated[Path, typer.Option(help="Directory of Parquet files.")]) -> None:
    """Run one seed and put its table into the page."""
    X, y = load("banana-sorted", data)
    inputs = Standardiser.empty(X.shape[1]).update(X[: doebe.WARMUP]).transform(X)
    first = slice(0, doebe.WARMUP)
    experts, members, variances = [], [], {}
    with jax.enable_x64(True):
        rows, labels = jnp.asarray(inputs[first]), jnp.asarray(y[first])
        for name, family, seen in (
            ("Fourier", doebe.RFF, inputs[first]),
            ("Hilbert space", doebe.HSGP, inputs[first]),
            ("Hilbert space, box of all rows", doebe.HSGP, inputs),
        ):
            for number, start in enumerate(family.starts):
                key = keys.fold_in(keys.key(0), number)
                basis = BASES[family.basis].from_data(seen, num_features=family.features, start=start, key=key)
                fit = LOGISTIC.fit(basis, rows, labels, start, tuple(basis.trainable))
                variances.setdefault(name, []).append(fit.prior_var)
                for q in WALKS:
                    dynamics = random_walk(q / fit.prior_var) if q else static()
                    experts.append(LOGISTIC.expert(fit, dynamics))
                    members.append(Member(f"{name} {q:g}", len(members) // len(WALKS), 0, q > 0.0))
        mixes = [Mix(one, (one,)) for one in dict.fromkeys(member.family for member in members)]
        after = slice(doebe.WARMUP, None)
        found = score(stream_classes(experts, inputs[after], y[after]), members, mixes, ClassificationScorer)[
            "models"
        ]
    lines = [f"| experts | v | {' | '.join(f'q = {q:g}' for q in WALKS)} |", "|---|---|" + "---|" * len(WALKS)]
    for name, each in variances.items():
        errors = " | ".join(f"{found[f'{name} {q:g}']['error']:.1f}%" for q in WALKS)
        lines.append(f"| {name} | {', '.join(f'{np.round(v, 1):g}' for v in each)} | {errors} |")
    PAGE.write_text(put(PAGE.read_text(), "banana-walks", "\n".join(lines)))


if __name__ == "__main__":
    typer.run(main)
