"""GPyTorch's Gaussian processes over the latest rows, fitted anew every so often: a batch library on a stream.

Every 500 rows each goes over to the latest 1,000 or 5,000, and predicts the next 500 from these. The exact process
takes 50 steps of Adam at the end of the warm-up and 10 later: every 500 rows, but with 5,000 rows, of which a step
takes seconds, every 2,000. The variational one, of 500 inducing points, goes 20 times over the warm-up in minibatches
of 256, and 5 times over the latest rows later. Double precision; the kernel is the squared exponential with a
lengthscale for each input.
"""
# pyright: reportMissingImports=false

from functools import partial
from typing import Any

import gpytorch
import numpy as np
import torch
from gpytorch import settings

from benchmarks.common.baselines import REFIT_EVERY, WARMUP, Column, Prediction, Rows, Warmed, nothing
from benchmarks.speed.fantasies import ExactGP

# The steps of Adam over the window: at first, and later.
FIRST_STEPS, STEPS = 50, 10
RATE = 0.1
# How often the exact process of so many rows takes such steps. It takes in the latest rows every 500 in any case.
TRAINED_EVERY = {1_000: 500, 5_000: 2_000}
INDUCING, MINIBATCH = 500, 256
FIRST_EPOCHS, EPOCHS = 20, 5
# Of 0.01, 0.03 and 0.1 this rate was best on the first 1,500 rows.
VARIATIONAL_RATE = 0.03


class VariationalGP(gpytorch.models.ApproximateGP):
    """Zero mean, squared exponential, and a full Gaussian over the values at inducing points, which move."""

    def __init__(self, inducing: torch.Tensor) -> None:
        over = gpytorch.variational.CholeskyVariationalDistribution(len(inducing))
        super().__init__(gpytorch.variational.VariationalStrategy(self, inducing, over))
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=inducing.shape[1]))
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood()
        self.double()
        # As the exact process begins.
        self.covar_module.base_kernel.lengthscale = inducing.shape[1] ** 0.5
        self.likelihood.noise = 0.1

    def forward(self, X: torch.Tensor) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


def exact(X: Rows, y: Column, seed: int, warmed: Warmed = nothing, *, latest: int) -> Prediction:
    """Predict by an exact Gaussian process on the `latest` rows, all of it by Cholesky factors."""
    inputs, targets = torch.as_tensor(X), torch.as_tensor(y)
    model = ExactGP(inputs[:WARMUP], targets[:WARMUP])
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)

    def fit(at: int) -> None:
        now = slice(max(0, at - latest), at)
        model.set_train_data(inputs[now], targets[now], strict=False)
        model.train()
        steps = 0 if (at - WARMUP) % TRAINED_EVERY[latest] else STEPS
        for _ in range(FIRST_STEPS if at == WARMUP else steps):
            optimiser.zero_grad()
            loss = -objective(model(inputs[now]), targets[now])
            loss.backward()
            optimiser.step()

    with settings.max_cholesky_size(2 * latest):
        return _windows(model, inputs, fit, warmed)


def variational(X: Rows, y: Column, seed: int, warmed: Warmed = nothing, *, latest: int) -> Prediction:
    """Predict by a variational Gaussian process that is trained on minibatches of the `latest` rows."""
    torch.manual_seed(seed)
    inputs, targets = torch.as_tensor(X), torch.as_tensor(y)
    model = VariationalGP(inputs[torch.randperm(WARMUP)[:INDUCING]])
    optimiser = torch.optim.Adam(model.parameters(), lr=VARIATIONAL_RATE)

    def fit(at: int) -> None:
        first = max(0, at - latest)
        objective = gpytorch.mlls.VariationalELBO(model.likelihood, model, num_data=at - first)
        model.train()
        for _ in range(FIRST_EPOCHS if at == WARMUP else EPOCHS):
            for some in (first + torch.randperm(at - first)).split(MINIBATCH):
                optimiser.zero_grad()
                loss = -objective(model(inputs[some]), targets[some])
                loss.backward()
                optimiser.step()

    return _windows(model, inputs, fit, warmed)


def _windows(model: Any, inputs: torch.Tensor, fit: Any, warmed: Warmed) -> Prediction:
    """Fit to the rows before each piece, then predict the piece, noise included; the warm-up gets no prediction."""
    mean, var = np.full(len(inputs), np.nan), np.full(len(inputs), np.nan)
    for at in range(WARMUP, len(inputs), REFIT_EVERY):
        fit(at)
        if at == WARMUP:
            warmed()
        ahead = slice(at, at + REFIT_EVERY)
        model.eval()
        with torch.no_grad():
            predicted = model.likelihood(model(inputs[ahead]))
        mean[ahead], var[ahead] = predicted.mean.numpy(), predicted.variance.numpy()
    return mean, var


MODELS = {
    f"GPyTorch {kind}, {latest:,} rows": partial(run, latest=latest)
    for kind, run in (("exact", exact), ("variational", variational))
    for latest in TRAINED_EVERY
}
