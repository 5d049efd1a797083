"""A model of any kind that was saved and loaded goes on to the numbers of the one that was not."""

import warnings
from pathlib import Path

import pytest
from numpy.testing import assert_array_equal

import small_models
from streamgp import StreamingGPFleet, StreamingGPLVM, TimeVaryingOptimizer

pytestmark = pytest.mark.slow

LOADERS = {
    "latent": StreamingGPLVM.load,
    "fleet": StreamingGPFleet.load,
    **dict.fromkeys(small_models.OPTIMISERS, TimeVaryingOptimizer.load),
    **{name: type(new()).load for name, new in small_models.ESTIMATORS.items()},
}


@pytest.mark.parametrize("name", small_models.NAMES)
def test_it_goes_on_as_if_it_had_not_been_saved(name: str, tmp_path: Path):
    model = small_models.made(name)
    model.save(tmp_path / name)
    loaded = LOADERS[name](tmp_path / name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # many rows at once, with lags
        assert_array_equal(small_models.go_on(name, loaded), small_models.go_on(name, model))
