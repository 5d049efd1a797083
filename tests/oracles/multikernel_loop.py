"""Online multi-kernel learners as their papers print them: a row at a time, plain probabilities, NumPy alone.

Squared loss, features Z of shape (rows, kernels, features); random draws are decided by the Gumbel noise given.
Every function returns what was predicted of each row.
"""

from collections.abc import Callable, Sequence

import numpy as np

Rate = Callable[[int], float]


def raker(Z: np.ndarray, y: np.ndarray, rate: Rate, penalty: float, after: bool = False) -> np.ndarray:
    """Shen, Chen and Giannakis (2019), Alg. 1; with `after`, weights take the losses of the new coefficients."""
    theta, w = np.zeros(Z.shape[1:]), np.ones(Z.shape[1])
    told = []
    for t in range(len(y)):
        values = np.array([theta[i] @ Z[t, i] for i in range(len(w))])
        told.append(w @ values / w.sum())
        for i in range(len(w)):
            loss = (values[i] - y[t]) ** 2 + penalty * theta[i] @ theta[i]
            gradient = 2.0 * (values[i] - y[t]) * Z[t, i] + 2.0 * penalty * theta[i]
            theta[i] = theta[i] - rate(t + 1) * gradient
            if after:
                loss = (theta[i] @ Z[t, i] - y[t]) ** 2 + penalty * theta[i] @ theta[i]
            w[i] *= np.exp(-rate(t + 1) * loss)
    return np.array(told)


def adaraker(Z: np.ndarray, y: np.ndarray, levels: int, penalty: float) -> np.ndarray:
    """Shen, Chen and Giannakis (2019), Alg. 2: an instance of Raker on every dyadic interval."""
    kernels = Z.shape[1]
    rates = [min(0.5, 2.0 ** (-j / 2)) for j in range(levels)]
    alive: dict[int, dict] = {}
    told = []
    for t in range(1, len(y) + 1):
        for j in range(levels):
            if t % 2**j == 0:
                alive[j] = {"theta": np.zeros(Z.shape[1:]), "w": np.ones(kernels), "h": rates[j]}
        z, target = Z[t - 1], y[t - 1]
        each = {}
        for j, instance in alive.items():
            values = np.array([instance["theta"][i] @ z[i] for i in range(kernels)])
            each[j] = values, instance["w"] @ values / instance["w"].sum()
        total = sum(instance["h"] for instance in alive.values())
        f = sum(alive[j]["h"] * each[j][1] for j in alive) / total
        told.append(f)
        for j, instance in alive.items():
            values, mixed = each[j]
            instance["h"] *= np.exp(rates[j] * ((f - target) ** 2 - (mixed - target) ** 2))
            for i in range(kernels):
                theta = instance["theta"][i]
                loss = (values[i] - target) ** 2 + penalty * theta @ theta
                gradient = 2.0 * (values[i] - target) * z[i] + 2.0 * penalty * theta
                instance["theta"][i] = theta - rates[j] * gradient
                instance["w"][i] *= np.exp(-rates[j] * loss)
    return np.array(told)


def sfg(
    Z: np.ndarray,
    y: np.ndarray,
    gumbel: np.ndarray,
    out: Sequence[Sequence[int]],
    dominating: Sequence[int],
    rate: Rate,
    explore: Rate,
    penalty: float,
    greedy_after: int,
    nearest: np.ndarray | None = None,
    least: float | None = None,
) -> np.ndarray:
    """Ghari and Shen (2021), Alg. 2; with `nearest`, the order of the kernels by Delta, Alg. 3 with a constant beta.

    Without a constant beta, the ten largest u make up the set.
    """
    kernels = Z.shape[1]
    theta, w, u = np.zeros(Z.shape[1:]), np.ones(kernels), np.ones(kernels)
    told = []
    for t in range(len(y)):
        eta, xi = rate(t + 1), explore(t + 1)
        edges, explored = [set(each) for each in out], set(dominating)
        share = u / u.sum()
        if nearest is not None:
            threshold = np.sort(share)[-10] if least is None else (least - xi / kernels) / (1.0 - xi)
            explored = {i for i in range(kernels) if share[i] >= threshold}
            for i in set(range(kernels)) - explored:
                if not any(i in out[j] for j in explored):
                    edges[min(explored, key=lambda j, i=i: nearest[i][j])].add(i)
        p = np.array([(1.0 - xi) * share[i] + xi / len(explored) * (i in explored) for i in range(kernels)])
        assert abs(p.sum() - 1.0) < 1e-12
        node = int(np.argmax(u)) if t >= greedy_after else int(np.argmax(np.log(p) + gumbel[t]))
        chosen = sorted(edges[node])
        values = {i: theta[i] @ Z[t, i] for i in chosen}
        f = sum(w[i] * values[i] for i in chosen) / sum(w[i] for i in chosen)
        told.append(f)
        for i in chosen:
            q = sum(p[j] for j in range(kernels) if i in edges[j])
            loss = (values[i] - y[t]) ** 2 + penalty * theta[i] @ theta[i]
            gradient = 2.0 * (values[i] - y[t]) * Z[t, i] + 2.0 * penalty * theta[i]
            theta[i] = theta[i] - eta * gradient / q
            w[i] *= np.exp(-eta * loss / q)
        u[node] *= np.exp(-eta * (f - y[t]) ** 2 / p[node])
    return np.array(told)


def omkl_gf(
    Z: np.ndarray,
    y: np.ndarray,
    gumbel: np.ndarray,
    node_gumbel: np.ndarray,
    rate: Rate,
    explore: Rate,
    penalty: float,
    plain: bool,
) -> np.ndarray:
    """Ghari and Shen (2020); `gumbel` is (rows, nodes, draws, kernels), `node_gumbel` (rows, nodes).

    Steps along the gradient of the loss over q or, if they are `plain`, of the loss.
    """
    _, nodes, draws, kernels = gumbel.shape
    theta, w = np.zeros(Z.shape[1:]), np.ones(kernels)
    told = []
    for t in range(len(y)):
        eta, xi = rate(t + 1), explore(t + 1)
        p = [(1.0 - xi ** (j + 1)) * w / w.sum() + xi ** (j + 1) / kernels for j in range(nodes)]
        joined = [{int(np.argmax(np.log(p[j]) + gumbel[t, j, m])) for m in range(draws)} for j in range(nodes)]
        u = np.array([sum(w[i] for i in each) for each in joined])
        of_node = (1.0 - xi) * u / u.sum() + xi / nodes
        chosen = sorted(joined[int(np.argmax(np.log(of_node) + node_gumbel[t]))])
        values = {i: theta[i] @ Z[t, i] for i in chosen}
        told.append(sum(w[i] * values[i] for i in chosen) / sum(w[i] for i in chosen))
        for i in chosen:
            q = sum(of_node[j] * (1.0 - (1.0 - p[j][i]) ** draws) for j in range(nodes))
            loss = (values[i] - y[t]) ** 2 + penalty * theta[i] @ theta[i]
            gradient = 2.0 * (values[i] - y[t]) * Z[t, i] + 2.0 * penalty * theta[i]
            theta[i] = theta[i] - eta * gradient / (1.0 if plain else q)
            w[i] *= np.exp(-eta * 0.5 ** np.floor(np.log2(nodes)) * loss / q)
    return np.array(told)


def omkr(
    X: np.ndarray, y: np.ndarray, kernels: Sequence[Callable[[np.ndarray], float]], rate: Rate, capacity: int
) -> np.ndarray:
    """Sahoo, Hoi and Li (2014): a kernel expansion for each kernel over the newest `capacity` rows."""
    kept: list[tuple[np.ndarray, np.ndarray]] = []
    w = np.ones(len(kernels))
    told = []
    for t in range(len(y)):
        values = np.zeros(len(kernels))
        for point, alpha in kept:
            values += alpha * np.array([kernel(X[t] - point) for kernel in kernels])
        told.append(w @ values / w.sum())
        w *= 0.5 ** ((values - y[t]) ** 2)
        kept = [*kept, (X[t], -rate(t + 1) * (values - y[t]))][-capacity:]
    return np.array(told)
