"""`ConsoleServer`: runs the console's application until `stop`."""

from __future__ import annotations

from kqueue.console.app import create_app
from kqueue.console.options import ConsoleOptions
from kqueue.web.http_server import HttpServer


class ConsoleServer:
    """A console that listens. `url`: its address for a browser.

    Raises: as `HttpServer`.
    """

    def __init__(self, options: ConsoleOptions) -> None:
        self._server = HttpServer(
            create_app(options), options.host, options.port, tls_cert=options.tls_cert, tls_key=options.tls_key
        )
        self.url = f"{self._server.url}/"

    def run(self) -> None:
        """Serve until `stop`."""
        self._server.run()

    def stop(self) -> None:
        """Have `run` end. Thread: any, also in a signal's handler."""
        self._server.stop()
