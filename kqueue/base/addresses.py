"""Addresses of brokers: ``host:port,host,[ipv6]:port``."""

from __future__ import annotations

from typing import NamedTuple

DEFAULT_PORT = 9092


class Address(NamedTuple):
    """A host and a port; `host` has no brackets of IPv6."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(text: str, default_port: int = DEFAULT_PORT) -> tuple[Address, ...]:
    """Return the addresses of a list ``host:port,host,[ipv6]:port``.

    Raises: ValueError: a part is not an address, or the list is empty.
    """
    addresses = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        host, colon, port = part.rpartition(":")
        if not colon or part.endswith("]"):
            host, port = part, str(default_port)
        if not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 65536 or not host:
            raise ValueError(f"{part!r} is no address; write HOST:PORT")
        addresses.append(Address(host.strip("[]"), int(port)))
    if not addresses:
        raise ValueError("no address given; write HOST:PORT")
    return tuple(addresses)
