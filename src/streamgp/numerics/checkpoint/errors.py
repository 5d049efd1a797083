"""The error of all checkpoints."""


class CheckpointError(ValueError):
    """A checkpoint cannot be written or read; the message says why and what to do."""
