"""The contract of a model."""

from streamgp.models.contract import Info, OnlineModel


def test_a_model_is_known_by_its_methods():
    class Model:
        num_inputs = 1
        num_outputs = 1

        def init(self, key): ...
        def predict(self, state, X, times=None): ...
        def update(self, state, X, y, mask=None, times=None): ...

    assert isinstance(Model(), OnlineModel)
    assert not isinstance(object(), OnlineModel)
    assert Info._fields == ("predictive", "outside", "rules", "weights", "flagged", "non_finite", "scores")
