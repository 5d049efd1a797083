"""The type checker that the tests put on every function of the library."""

from typing import Any, Self

from beartype import BeartypeConf, FrozenDict, beartype

# jaxtyping decorates methods one at a time, outside their class, where Self has no meaning to beartype.
typecheck = beartype(conf=BeartypeConf(is_pep484_tower=True, hint_overrides=FrozenDict({Self: Any})))
