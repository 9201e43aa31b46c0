"""The bounds of connections: of all, and of each address; and of new ones per second from
each address (`broker.client_quotas`).
"""

from __future__ import annotations

import logging
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kqueue.base import events
from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.base.text import counted

if TYPE_CHECKING:
    from kqueue.broker.access.client_quotas import ClientQuotas

FILES_RESERVED_MIN = 64
PER_ADDRESS = "max.connections.per.ip"
OVERRIDES = "max.connections.per.ip.overrides"
SETTINGS = ("max.connections", PER_ADDRESS, OVERRIDES)
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
        self.clients: ClientQuotas | None = None  # None: no quota was ever set
        self._by_address: Counter[str] = Counter()
        self.total = 0

    @classmethod
    def of(cls, config: Config) -> ConnectionQuotas:
        """Return the quotas that the settings ask for, now and later. Raises SettingError."""
        entries = list(config[OVERRIDES])
        limits = parse_overrides(entries)

        def overrides(changed: Config) -> Mapping[str, int]:
            # names of hosts are looked up at the start only: a look-up blocks
            return limits if changed[OVERRIDES] == entries else _numeric_overrides(changed[OVERRIDES])

        quotas = cls(0, 0, {})
        quotas._configure(config, limits)
        config.observe(
            SETTINGS,
            lambda: quotas._configure(config, overrides(config)),
            lambda changed: _check_change(changed, overrides(changed)),
        )
        return quotas

    def _configure(self, config: Config, overrides: Mapping[str, int]) -> None:
        configured: int = config["max.connections"]
        allowed = connections_max_within(configured, open_files_max())
        if allowed < configured and config.is_set("max.connections"):
            events.OPEN_FILES_LIMIT_LOW.log(
                logger,
                "max.connections is %d, but the limit on open files allows only %d",
                configured=configured,
                allowed=allowed,
            )
        _check_addresses(config, overrides)
        self.total_max = allowed
        self._per_address_max = config[PER_ADDRESS]
        self._overrides = dict(overrides)

    def hold_ms(self, address: str) -> int:
        """Count one more new connection and return 0, or return for how long it is not served."""
        clients = self.clients
        return clients.count_connection(address) if clients is not None and clients.bounds_addresses else 0

    def admit(self, address: str) -> str | None:
        """Count one more connection and return None, or return which limit it exceeds, as text."""
        if self.total >= self.total_max:
            return f"the broker has {counted(self.total, 'connection')} already (max.connections)"
        allowed = self._overrides.get(address, self._per_address_max)
        if self._by_address[address] >= allowed:
            have = counted(self._by_address[address], "connection")
            return f"its address has {have} already (max.connections.per.ip)"
        self._by_address[address] += 1
        self.total += 1
        return None

    def release(self, address: str) -> None:
        """Count one admitted connection less."""
        self.total -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


def parse_overrides(entries: Sequence[str], flags: int = 0) -> dict[str, int]:
    """Return connection limits by numeric address, from ``host:number`` entries.

    Args:
        flags: of `socket.getaddrinfo`.
    Raises: SettingError.
    """
    limits = {}
    for entry in entries:
        host, _, number = entry.rpartition(":")
        try:
            limit = int(number)
            for info in socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM, flags=flags):
                limits[str(info[4][0])] = limit
        except (ValueError, OSError):
            raise SettingError(
                f"Error parsing configuration property '{OVERRIDES}': expected address:number, found {entry!r}"
            ) from None
    return limits


def _numeric_overrides(entries: Sequence[str]) -> dict[str, int]:
    return parse_overrides(entries, socket.AI_NUMERICHOST)


def _check_change(config: Config, overrides: Mapping[str, int]) -> None:
    """Raise SettingError for limits that would admit no client, not even one to change them."""
    if config["max.connections"] == 0:
        raise SettingError("max.connections=0: expected at least 1 at run time: no client could connect to raise it")
    _check_addresses(config, overrides)


def _check_addresses(config: Config, overrides: Mapping[str, int]) -> None:
    if config[PER_ADDRESS] == 0 and not overrides:
        raise SettingError(f"{PER_ADDRESS}=0 admits only the addresses of {OVERRIDES}, which names none")
