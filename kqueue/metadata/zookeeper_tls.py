"""Connections to ZooKeeper by TLS, for kazoo.

kazoo has TLS of its own, by files in PEM alone, and it waits for the socket while decrypted bytes
of the next answer wait in memory. This takes what encrypts a socket, and asks for those first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

Wrap = Callable[[Any, str], Any]
"""Makes a connection of a connected socket and the name of its host: with the methods of a socket,
and `pending`, the number of decrypted bytes that wait. Raises OSError.
"""


class TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Makes kazoo's connections. `failure`: why the last handshake failed; empty: it did not."""

    def __init__(self, wrap: Wrap) -> None:
        super().__init__()
        self._wrap = wrap
        self.failure = ""

    def create_connection(self, *args: Any, hostname: str, **kwargs: Any) -> Any:
        """Return an encrypted connection. Raises OSError, as for one that is not."""
        plain = super().create_connection(*args, hostname=hostname, **kwargs)
        try:
            connection = self._wrap(plain, hostname)
        except OSError as error:
            plain.close()
            self.failure = getattr(error, "verify_message", "") or str(error)
            raise
        self.failure = ""
        return connection

    def select(self, readers: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        """See `select.select`; a connection is ready while decrypted bytes of it wait."""
        ready = [one for one in readers if hasattr(one, "pending") and one.pending()]
        return (ready, [], []) if ready else super().select(readers, *args, **kwargs)
