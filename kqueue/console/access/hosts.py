"""The names by which browsers may reach the console.

A site that a user visits can give its name this machine's address (DNS rebinding). Its script then
reads answers of the console as its own. The browser still sends the site's name in Host, so a name
that is not the console's is refused. An IP address can't be rebound, and is always accepted.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

HOST_CHARACTERS_MAX = 255


class AllowedHosts:
    """Refuses requests whose Host is neither an IP address nor one of `names`."""

    def __init__(self, app: ASGIApp, *, names: Iterable[str]) -> None:
        self._app = app
        self._names = frozenset(name.lower().rstrip(".") for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and not self.accepts(Headers(scope=scope).get("host", "")):
            response = PlainTextResponse(
                "This console is not served under this name. Start it with --allowed-host NAME to allow it.\n", 421
            )
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def accepts(self, host: str) -> bool:
        """Return whether the value of a Host header, ``name`` or ``name:port``, is allowed."""
        if not host or len(host) > HOST_CHARACTERS_MAX:
            return False
        name = host_name(host)
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._names
        return True


def host_name(host: str) -> str:
    """Return the name or address in a Host header, lower case, without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    name, colon, port = host.rpartition(":")
    return (name if colon and (port.isdecimal() or not port) else host).lower().rstrip(".")
