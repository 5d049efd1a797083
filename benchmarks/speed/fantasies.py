"""GPyTorch's way to learn one more row: `get_fantasy_model` of an exact Gaussian process, in double precision."""

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import gpytorch
import numpy as np
import torch
from gpytorch import settings

# The model grows by so many rows in one run. Each run begins again with the same points.
ROWS = 10
# By its defaults GPyTorch takes a root of rank 100 above 800 points, which is fast and not exact.
MODELS = {
    "500 points": (500, 800),
    "1,000 points": (1_000, 10_000),
    "1,000 points, rank 100": (1_000, 800),
}


class ExactGP(gpytorch.models.ExactGP):
    """Zero mean, squared exponential with a lengthscale for each input."""

    def __init__(self, X: torch.Tensor, y: torch.Tensor) -> None:
        super().__init__(X, y, gpytorch.likelihoods.GaussianLikelihood())
        self.mean_module = gpytorch.means.ZeroMean()
        kernel = gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1])
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)
        self.double().eval()
        # Of the size that a fit would find; a row takes as long with others.
        self.covar_module.base_kernel.lengthscale = X.shape[1] ** 0.5
        self.likelihood.noise = 0.1

    def forward(self, X: torch.Tensor) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


def jobs(X: np.ndarray, y: np.ndarray) -> tuple[dict[str, Callable[[], None]], dict[str, dict[str, float]]]:
    """Return runs of `ROWS` rows through each model, the best number of threads for each, and how accurate it is.

    Two for each: ``row`` predicts a row, learns it and goes on with the grown model, as a stream would; ``update``
    only learns, each row from the same model whose caches are all filled. The accuracy is the largest relative error
    of the rows' standard deviations.
    """
    inputs, targets = torch.as_tensor(X), torch.as_tensor(y)
    found: dict[str, Callable[[], None]] = {}
    chosen = {}
    for name, (n, exact_up_to) in MODELS.items():
        model = ExactGP(inputs[:n], targets[:n])
        new = inputs[n : n + ROWS], targets[n : n + ROWS]
        off = _stds(model, new[0], exact_up_to) / _stds(ExactGP(inputs[:n], targets[:n]), new[0], 10_000) - 1
        error = float(off.abs().max())
        for what, run in (("row", _rows), ("update", _updates)):
            job = partial(_under, exact_up_to, run, model, *new)
            threads = _best_threads(job)
            found[f"GPyTorch {what}, {name}"] = partial(job, threads=threads)
            chosen[f"GPyTorch {what}, {name}"] = {"threads": threads, "std_error": error}
    return found, chosen


def _under(exact_up_to: int, run: Callable[..., Any], *args: Any, threads: int | None = None) -> Any:
    """Run without gradients, and with the caches for variances that a fantasy update carries over."""
    if threads is not None:
        torch.set_num_threads(threads)
    with torch.no_grad(), settings.fast_pred_var(), settings.max_cholesky_size(exact_up_to):
        return run(*args)


def _best_threads(job: Callable[..., Any]) -> int:
    """Return 1, or the number of cores: whichever is faster now."""

    def seconds(threads: int) -> float:
        job(threads=threads)
        start = time.perf_counter()
        job(threads=threads)
        return time.perf_counter() - start

    return min((1, os.cpu_count() or 1), key=seconds)


def _stds(model: Any, X: torch.Tensor, exact_up_to: int) -> torch.Tensor:
    """Return standard deviations of rows, noise included; fills the caches, which `get_fantasy_model` demands."""
    return _under(exact_up_to, lambda: torch.stack([model.likelihood(model(x[None])).stddev[0] for x in X]))


def _rows(model: Any, X: torch.Tensor, y: torch.Tensor) -> None:
    for i in range(len(X)):
        ahead = model.likelihood(model(X[i : i + 1]))
        ahead.mean.item(), ahead.stddev.item()
        model = model.get_fantasy_model(X[i : i + 1], y[i : i + 1])


def _updates(model: Any, X: torch.Tensor, y: torch.Tensor) -> None:
    for i in range(len(X)):
        model.get_fantasy_model(X[i : i + 1], y[i : i + 1])
