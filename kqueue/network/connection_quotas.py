"""How many connections are admitted: in all, and from each address."""

from __future__ import annotations

import logging
import socket
from collections import Counter
from collections.abc import Mapping, Sequence

from kqueue.base.errors import SettingError
from kqueue.base.settings import Config

FILES_RESERVED_MIN = 64
logger = logging.getLogger("kqueue.server")


def open_files_max() -> int | None:
    """Return how many files this process may open; None where the system sets no limit."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def connections_max_within(limit: int, open_files_max: int | None) -> int:
    """Return `limit`, lowered to what `open_files_max` (None: no limit) allows.

    A quarter of the open files is reserved for logs.
    """
    if open_files_max is None:
        return limit
    return min(limit, max(1, open_files_max - max(FILES_RESERVED_MIN, open_files_max // 4)))


class ConnectionQuotas:
    """Counts connections against `total_max`, and those of each address against `per_address_max`.

    `overrides`: other limits for some addresses. Source: Kafka's ConnectionQuotas.
    """

    def __init__(self, total_max: int, per_address_max: int, overrides: Mapping[str, int]) -> None:
        self.total_max = total_max
        self._per_address_max = per_address_max
        self._overrides = dict(overrides)
        self._by_address: Counter[str] = Counter()
        self.total = 0

    @classmethod
    def of(cls, config: Config) -> ConnectionQuotas:
        """Return the quotas that the settings ask for. Raises SettingError."""
        configured: int = config["max.connections"]
        allowed = connections_max_within(configured, open_files_max())
        if allowed < configured and config.is_set("max.connections"):
            logger.warning("max.connections is %d, but the limit on open files allows only %d", configured, allowed)
        overrides = parse_overrides(config["max.connections.per.ip.overrides"])
        if config["max.connections.per.ip"] == 0 and not overrides:
            raise SettingError(
                "max.connections.per.ip=0 admits only the addresses of "
                "max.connections.per.ip.overrides, which names none"
            )
        return cls(allowed, config["max.connections.per.ip"], overrides)

    def admit(self, address: str) -> str | None:
        """Count one more connection and return None, or return which limit it exceeds, as text."""
        if self.total >= self.total_max:
            return f"there are {self.total} connections already (max.connections)"
        allowed = self._overrides.get(address, self._per_address_max)
        if self._by_address[address] >= allowed:
            return (
                f"there are {self._by_address[address]} connections from its address already (max.connections.per.ip)"
            )
        self._by_address[address] += 1
        self.total += 1
        return None

    def release(self, address: str) -> None:
        """Count one admitted connection less."""
        self.total -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


def parse_overrides(entries: Sequence[str]) -> dict[str, int]:
    """Return connection limits by numeric address, from ``host:number`` entries. Raises
    SettingError.
    """
    limits = {}
    for entry in entries:
        host, _, number = entry.rpartition(":")
        try:
            limit = int(number)
            for info in socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM):
                limits[str(info[4][0])] = limit
        except (ValueError, OSError):
            raise SettingError(f"max.connections.per.ip.overrides: expected address:number, found {entry!r}") from None
    return limits
