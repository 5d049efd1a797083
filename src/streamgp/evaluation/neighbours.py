"""Agreement of labels between nearest neighbours: a score of embeddings that none of them was fitted to."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float


def neighbour_error(coordinates: Float[np.ndarray, "n d"], labels: Sequence | np.ndarray) -> float:
    """Compute the share of rows whose nearest neighbour among all others has another label (leave-one-out 1-NN).

    The score is optimistic: a row with the copied coordinates of a row of its label does as well as one embedded
    by a model.
    """
    # The import is slow, and only this score needs it.
    from sklearn.neighbors import NearestNeighbors

    labels = np.asarray(labels)
    nearest = NearestNeighbors(n_neighbors=1).fit(coordinates).kneighbors(return_distance=False)[:, 0]
    return float(np.mean(labels[nearest] != labels))
