"""What an old release saved loads today, and goes on to the numbers that it went on to then."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from checkpoints import make
from streamgp import StreamingGPFleet, StreamingGPLVM, TimeVaryingOptimizer

pytestmark = pytest.mark.slow

LOADERS = {
    "latent": StreamingGPLVM.load,
    "fleet": StreamingGPFleet.load,
    **dict.fromkeys(make.OPTIMISERS, TimeVaryingOptimizer.load),
    **{name: type(new()).load for name, new in make.ESTIMATORS.items()},
}
# Where rows are placed by an iteration that ends when it is settled, or points are chosen by an optimiser.
LOOSE = {"latent": 1e-5, "tv-gp-ucb": 1e-5, "ensemble": 1e-5}


@pytest.mark.parametrize("name", make.NAMES)
def test_a_checkpoint_of_an_old_release_goes_on(name: str):
    model = LOADERS[name](make.HERE / name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # many rows at once, with lags
        found = make.go_on(name, model)
    want = np.load(make.HERE / f"{name}.npy")
    tolerance = LOOSE.get(name, 1e-9)
    assert_allclose(found, want, rtol=tolerance, atol=tolerance * np.abs(want).max())
