"""How well labels agree between neighbours: a measure of embeddings that no embedding was fitted to."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from sklearn.neighbors import NearestNeighbors


def neighbour_error(places: Float[np.ndarray, "n d"], labels: Sequence | np.ndarray) -> float:
    """Share of rows whose nearest neighbour among all other rows has another label (leave-one-out, 1-NN).

    It flatters: a row that copies the place of a row of its label does as well as one that is understood.
    """
    labels = np.asarray(labels)
    nearest = NearestNeighbors(n_neighbors=1).fit(places).kneighbors(return_distance=False)[:, 0]
    return float(np.mean(labels[nearest] != labels))
