"""What a client is told before it begins; it can be pickled, so that another process makes its own
client of it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from kqueue.base.addresses import Address, parse_addresses

MiB = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientOptions:
    """How to reach the brokers, and how long to wait for what.

    Args:
        bootstrap: ``host:port`` of one or more brokers, with commas between; one that answers is enough.
        client_id: how brokers name this client in logs, quotas and faults.
        timeout_ms: for a whole call, retries and reconnecting included, unless the call is given its own.
        request_timeout_ms: for one answer; then that connection is given up, and the call may try again.
        connect_timeout_ms: for one connection. Looking up a host's name is not bounded by it.
        missing_topic_ms: how long a topic or partition that a broker does not know is asked for again; a new one may not be everywhere yet.
        retry_backoff_ms, retry_backoff_max_ms: the first pause before a call tries again, which then doubles, up to the second.
        response_bytes_max: an answer that says to be larger is refused before anything is allocated for it.
    Raises: ValueError: a bad address or a number below 1.
    """

    bootstrap: str
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
        """`bootstrap`, taken apart."""
        return parse_addresses(self.bootstrap)
