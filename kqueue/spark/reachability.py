"""Checks that this machine reaches the servers of a job, before Spark starts.

Clients retry for seconds, and their last error does not say which address to correct.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from kqueue.spark.errors import PipelineFailed

CONNECT_TIMEOUT_S = 3.0
CONNECTIONS_AT_ONCE = 16


def connection_error(address: str, timeout_s: float = CONNECT_TIMEOUT_S) -> str | None:
    """Return why HOST:PORT takes no connection; None: it takes one."""
    host, _colon, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s).close()
    except (OSError, OverflowError) as error:
        return getattr(error, "strerror", None) or str(error)
    return None


def check_advertised(brokers: Iterable[str]) -> None:
    """Check that this machine reaches a broker under the address that it advertises.

    Args:
        brokers: HOST:PORT, as the brokers advertise themselves. One is enough: of a cluster, some
            may be down.
    Raises: PipelineFailed: there are some, and none is reached.
    """
    addresses = list(brokers)
    with ThreadPoolExecutor(CONNECTIONS_AT_ONCE) as threads:
        errors = dict(zip(addresses, threads.map(connection_error, addresses), strict=True))
    unreached = {address: error for address, error in errors.items() if error is not None}
    if addresses and len(unreached) == len(errors):
        raise PipelineFailed(unreached_brokers("this machine", unreached))


def unreached_brokers(machine: str, unreached: Mapping[str, str]) -> str:
    """Return what is wrong, and the remedy. unreached: errors, by the advertised address."""
    addresses = ", ".join(f"{address} ({error})" for address, error in unreached.items())
    return (
        f"{machine} does not reach {addresses}, as the broker calls itself: set the broker's advertised.listeners to "
        "an address that all machines of the job reach"
    )
