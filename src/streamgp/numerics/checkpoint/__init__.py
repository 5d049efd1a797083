"""Checkpoints without pickle: trees of arrays and registered classes as text and numbers, and directories of them.

What a model, a run or an optimiser puts into its checkpoint is decided where that lives, not here.
"""

from streamgp.numerics.checkpoint.directory import MANIFEST, load, load_meta, load_of, save
from streamgp.numerics.checkpoint.directory import reading as reading  # Modules that restore something use this name.
from streamgp.numerics.checkpoint.encoding import CheckpointError, register, registry

__all__ = ["MANIFEST", "CheckpointError", "load", "load_meta", "load_of", "register", "registry", "save"]
