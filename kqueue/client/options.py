"""The options of a client; picklable, so that another process can create a client."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from kqueue.base.addresses import Address, parse_addresses

if TYPE_CHECKING:
    from kqueue.config.client_security import ClientSecurity

MiB = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientOptions:
    """The brokers' addresses and the timeouts of a client.

    Args:
        bootstrap: ``host:port`` of one or more brokers, separated by commas; one that responds is
            enough.
        client_id: the name of this client in broker logs, quotas and faults.
        timeout_ms: limit of a whole call, with retries and reconnects, unless the call passes its
            own.
        request_timeout_ms: limit for one response; after it the connection is closed, and the call
            may retry.
        connect_timeout_ms: limit for one connection attempt. It does not bound the DNS lookup.
        missing_topic_ms: how long to retry a topic or partition that a broker does not know; a new
            one may not have reached every broker.
        retry_backoff_ms, retry_backoff_max_ms: the first pause before a retry, which doubles up to
            the maximum.
        security: TLS and SASL, see `kqueue.config.client_security.ClientSecurity`; None: neither.
        response_bytes_max: a larger response is rejected before memory is allocated for it.
    Raises: ValueError: an invalid address, or a number below 1.
    """

    bootstrap: str
    security: ClientSecurity | None = None
    client_id: str = "kqueue"
    timeout_ms: int = 30_000
    request_timeout_ms: int = 15_000
    connect_timeout_ms: int = 5_000
    missing_topic_ms: int = 1_000
    retry_backoff_ms: int = 20
    retry_backoff_max_ms: int = 1_000
    response_bytes_max: int = 128 * MiB

    def __post_init__(self) -> None:
        parse_addresses(self.bootstrap)
        for each in fields(self):
            value = getattr(self, each.name)
            if each.type == "int" and (not isinstance(value, int) or value < 1):
                raise ValueError(f"{each.name}={value!r}: expected a whole number from 1 on")

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The parsed `bootstrap` addresses."""
        return parse_addresses(self.bootstrap)
