"""Leaves of boosted trees against scikit-learn's own leaves and predictions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

from streamgp.bases import Trees
from streamgp.bases.trees import LEAVES, look_up
from streamgp.numerics import keys

KEY = keys.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 4)).round(1)  # with ties
Y = np.sign(X[:, :1] * X[:, 1:2]) + 0.1 * RNG.normal(size=(500, 1))
# The warm-up's rows, rows of finer values, rows on thresholds, rows far away.
NEW = np.concatenate([X, RNG.normal(size=(500, 4)), 1e3 * RNG.normal(size=(50, 4))])


def booster(trees: int = 20, leaves: int = LEAVES) -> HistGradientBoostingRegressor:
    model = HistGradientBoostingRegressor(max_iter=trees, max_leaf_nodes=leaves, early_stopping=False, random_state=0)
    return model.fit(X, Y[:, 0])


def on_thresholds(basis: Trees) -> np.ndarray:
    """A row on each finite threshold, and one on either side of it, at the next floating-point numbers."""
    feature, threshold = np.asarray(basis.feature).ravel(), np.asarray(basis.threshold).ravel()
    used = np.isfinite(threshold)
    rows = np.repeat(NEW[:1], used.sum(), axis=0)
    parts = []
    for to in (-np.inf, 0.0, np.inf):
        part = rows.copy()
        at = threshold[used]
        part[np.arange(len(part)), feature[used]] = np.nextafter(at, to) if to else at
        parts.append(part)
    return np.concatenate(parts)


@pytest.mark.parametrize("leaves", [2, 5, LEAVES])
def test_leaves_and_values_are_those_of_scikit_learn(leaves):
    model = booster(leaves=leaves)
    basis = look_up(model)
    rows = np.concatenate([NEW, on_thresholds(basis)])
    Phi = np.asarray(eqx.filter_jit(basis)(jnp.asarray(rows))).reshape(len(rows), 20, LEAVES)
    ours = np.asarray(Phi > 0)
    np.testing.assert_array_equal(ours.sum(-1), 1)
    values = np.zeros((20, LEAVES))
    for tree, (predictor,) in enumerate(model._predictors):
        nodes = predictor.nodes
        of_tree = nodes["value"][nodes["is_leaf"] == 1]
        values[tree, : len(of_tree)] = of_tree
        np.testing.assert_array_equal(leaf_by_walking(nodes, rows), ours[:, tree].argmax(-1))
    # What scikit-learn predicts is its baseline and the values of our leaves.
    predicted = model._baseline_prediction.item() + np.einsum("ntl,tl->n", ours, values)
    np.testing.assert_allclose(predicted, model.predict(rows), rtol=1e-12)


def leaf_by_walking(nodes: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The number, among a tree's leaves, of the one that each row ends in: the textbook walk."""
    number = np.cumsum(nodes["is_leaf"]) - 1
    found = []
    for row in rows:
        at = 0
        while not nodes["is_leaf"][at]:
            goes_left = row[nodes["feature_idx"][at]] <= nodes["num_threshold"][at]
            at = nodes["left" if goes_left else "right"][at]
        found.append(number[at])
    return np.array(found)


def test_features_have_unit_norm_and_share_leaves():
    basis = Trees.from_data(X, num_features=100, start=1.0, key=KEY, y=Y)
    assert (basis.num_features, basis.num_inputs) == (96, 4)  # 12 trees of 8 leaves
    rows = np.concatenate([NEW, on_thresholds(basis)])
    numpys = jax.tree.map(np.asarray, basis)
    Phi = numpys(rows)
    np.testing.assert_array_equal(Phi, eqx.filter_jit(basis)(jnp.asarray(rows)))
    np.testing.assert_allclose(np.square(Phi).sum(1), 1.0, rtol=1e-14)
    leaf = Phi.reshape(len(rows), 12, LEAVES).argmax(-1)
    np.testing.assert_allclose(Phi @ Phi[0], (leaf == leaf[0]).mean(1), atol=1e-14)
    assert not numpys.outside(rows).any()


def test_trees_follow_the_target():
    """On a target that only one input moves, the first split is on that input."""
    for d in range(4):
        basis = Trees.from_data(X, num_features=24, start=1.0, key=KEY, y=np.sign(X[:, d : d + 1]))
        assert basis.feature[0, 0] == d
        assert abs(basis.threshold[0, 0]) < 0.2


def test_several_targets_are_split_along_their_first_principal_component():
    both = np.column_stack([Y[:, 0], -2.0 * Y[:, 0] + 1e-6 * X[:, 2]])
    one = Trees.from_data(X, num_features=24, start=1.0, key=KEY, y=Y)
    two = Trees.from_data(X, num_features=24, start=1.0, key=KEY, y=both)
    # The sign of a component is arbitrary; the trees' pieces are not.
    same_leaf = [np.asarray(b(jnp.asarray(X)) @ b(jnp.asarray(X)).T) for b in (one, two)]
    np.testing.assert_allclose(*same_leaf, atol=1e-12)


@pytest.mark.parametrize("kind", ["one row", "few rows", "constant target", "constant inputs"])
def test_where_nothing_can_be_split_all_rows_are_alike(kind):
    n = {"one row": 1, "few rows": 10}.get(kind, 500)
    y = np.full((n, 1), 3.0) if kind == "constant target" else Y[:n]
    rows = np.ones((n, 4)) if kind == "constant inputs" else X[:n]
    basis = Trees.from_data(rows, num_features=400, start=1.0, key=KEY, y=y)
    Phi = np.asarray(basis(jnp.asarray(NEW)))
    assert Phi.shape == (len(NEW), 400)
    np.testing.assert_allclose(Phi @ Phi[0], 1.0)


def test_targets_are_needed():
    with pytest.raises(ValueError, match=r"expected targets, got y=None; pass the warm-up's targets as y"):
        Trees.from_data(X, num_features=400, start=1.0, key=KEY)
