"""The declaration of a family of models by an annex, made without importing anything heavy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streamgp.models.option_type import Option
from streamgp.models.spec import Spec


@dataclass(frozen=True, kw_only=True)
class DeclaredFamily:
    """A family of models that an annex adds.

    Attributes
    ----------
    name, title
        A word, and what its models are, in a few words.
    tasks
        What targets its models are for.
    module
        The module that makes its models: a `streamgp.models.base.ModelFamily`.
    presets
        Its models by name.
    options
        Options of its own.
    takes
        The options of the core that are not of all models, and that its models take.
    estimators
        Estimators of its own, with the defaults by which they differ from the core's.
    """

    name: str
    title: str
    tasks: tuple[str, ...]
    module: str
    presets: tuple[Spec, ...]
    options: tuple[Option, ...] = ()
    takes: tuple[str, ...] = ()
    estimators: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def models(self) -> tuple[str, ...]:
        """Return the names of its models."""
        return tuple(preset.model for preset in self.presets)
