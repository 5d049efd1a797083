"""What stands between an entry that is learnt and its acknowledgement: of a service by itself, nothing."""

from collections.abc import Callable

from streamgp.service.problems import Problem


class Writer:
    """A service that writes, and has no standby.

    Attributes
    ----------
    epoch
        How often a standby has become the leader; every log has an entry of it.
    """

    epoch = 0

    @property
    def leads(self) -> bool:
        """Whether this service takes rows."""
        return True

    def check(self) -> None:
        """Raise `Problem` if this service takes no rows."""

    def acknowledge(self, token: str, position: int, tell: Callable[[Problem | None], None]) -> None:
        """Call `tell` when what the stream of a token has up to a position may be acknowledged, or why it may not."""
        tell(None)

    def entered(self) -> None:
        """Note that a stream has another entry."""
