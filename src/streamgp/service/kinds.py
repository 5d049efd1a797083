"""Which model a stream has: one of all rows, or one of each key."""

from typing import Any

from streamgp.service.config import StreamConfig
from streamgp.service.keyed_model import KeyedModel
from streamgp.service.single_model import SingleModel


def kind_of(config: StreamConfig) -> type[Any]:
    """Return the class of a stream's model."""
    return KeyedModel if config.is_keyed else SingleModel
