"""The certificate of the service: its files, read again when they change."""

import logging
import ssl
from pathlib import Path

from streamgp.service.web.changes import version_of

LOGGER = logging.getLogger("streamgp.service")


class Certificate:
    """A certificate and its key, as their files have them now.

    Files that were changed, and do not go together, leave the certificate as it was; a line of the log says so.

    Parameters
    ----------
    certificate, key_file
        As PEM; the certificate with its chain.

    Raises
    ------
    OSError
        If there are none.
    """

    def __init__(self, certificate: Path, key_file: Path) -> None:
        self._paths = certificate, key_file
        self._versions = self._look()
        self._context = self._read()

    def show_by(self, context: ssl.SSLContext) -> None:
        """Have a server, whose context this is, show the certificate of now to each client that comes."""

        def show(connection: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
            connection.context = self.current()

        context.sni_callback = show  # pyright: ignore[reportAttributeAccessIssue]

    def current(self) -> ssl.SSLContext:
        """Return a context with the certificate of now."""
        versions = self._look()
        if versions != self._versions:
            self._versions = versions
            try:
                self._context = self._read()
            except OSError as error:
                files = " and ".join(map(str, self._paths))
                LOGGER.error(
                    "%s: expected a certificate and its key, got none (%s); the former one stays", files, error
                )
        return self._context

    def _look(self) -> list[tuple[int, ...]]:
        return [version_of(path) for path in self._paths]

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self._paths)
        return context
