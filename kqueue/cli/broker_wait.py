"""The wait for a broker that does not answer yet, with a notice on standard error.

One rule for all client commands: `find_broker` waits as long as `--timeout` says.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import click

from kqueue.base.addresses import Address
from kqueue.base.clock import monotonic_s
from kqueue.base.errors import KqueueError
from kqueue.cli.client_access import addresses, client_access, client_security

CLIENT_ID = "kqueue-cli"
ANSWER_TIMEOUT_S = 10.0
"""How long a broker that is asked once has for its answer."""
ANSWER_TIMEOUT_MIN_S = 1.0
NOTICE_DELAY_S = 1.0
RETRY_INTERVAL_S, RETRY_INTERVAL_MAX_S = 0.2, 1.0
MUTE = (
    "a server listens there, but it does not answer in Kafka's protocol in time; if it needs TLS or a password, give "
    "them by --command-config FILE"
)


class BrokerNotFound(click.ClickException):
    """No server listens at any of the addresses, or none of them answers as a broker."""


@contextlib.contextmanager
def waiting(bootstrap: str) -> Iterator[None]:
    """Write a notice to standard error if the block takes longer than a second."""
    said = threading.Timer(NOTICE_DELAY_S, click.echo, [f"waiting for the broker at {bootstrap} ..."], {"err": True})
    said.daemon = True
    said.start()
    try:
        yield
    finally:
        said.cancel()
        said.join()


def find_broker(bootstrap: str) -> None:
    """Wait until a broker answers, as long as the running command's `--timeout` says.

    Raises: BrokerNotFound. ClickException: TLS or SASL failed.
    """
    timeout_s = client_access().timeout_s
    if not timeout_s:
        probe_broker(bootstrap)
        return
    with waiting(bootstrap):
        await_broker(bootstrap, timeout_s)


def await_broker(bootstrap: str, timeout_s: float) -> int:
    """Wait until a broker answers at one of the addresses.

    Args:
        timeout_s: seconds; 0 tries once.
    Returns: the milliseconds that remain for the first response to the caller, 1,000 at least.
    Raises: BrokerNotFound: none answered in time. ClickException: TLS or SASL failed.
    """
    deadline_s = monotonic_s() + timeout_s
    interval_s = RETRY_INTERVAL_S
    while True:
        remaining_s = deadline_s - monotonic_s()
        try:
            probe_broker(bootstrap, max(remaining_s, ANSWER_TIMEOUT_MIN_S) if timeout_s else ANSWER_TIMEOUT_S)
            return int(max(deadline_s - monotonic_s(), 1.0) * 1000)
        except BrokerNotFound as error:
            remaining_s = deadline_s - monotonic_s()
            if remaining_s <= 0:
                waited = f" The command waited {timeout_s:g} s; --timeout SECONDS changes this." if timeout_s else ""
                raise BrokerNotFound(error.message + waited) from None
            time.sleep(min(interval_s, remaining_s))
            interval_s = min(2 * interval_s, RETRY_INTERVAL_MAX_S)


def probe_broker(bootstrap: str, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
    """Check that a broker answers at one of the addresses, before a client runs into its timeout.

    Args:
        timeout_s: seconds for all addresses together.
    Raises: BrokerNotFound: with the reason for each address. ClickException: TLS or SASL failed.
    """
    reasons = []
    servers = addresses(bootstrap)
    for host, port in servers:
        try:
            _connect(Address(host, port), timeout_s / len(servers))
            return
        except OSError as error:
            reasons.append((f"{host}:{port}", error.strerror or str(error)))
    if len(reasons) == 1:
        raise broker_not_found(bootstrap, reasons[0][1])
    raise broker_not_found(bootstrap, "; ".join(map(": ".join, reasons)))


def _connect(address: Address, timeout_s: float) -> None:
    """Connect, with TLS and SASL if the command has them, and exchange ApiVersions.

    By our own client, because it says what is wrong. A server that only listens is no broker yet:
    the port of a container is open before the broker in it.

    Raises: OSError: no broker answers. ClickException: TLS or SASL failed.
    """
    from kqueue.client.connection import Connection
    from kqueue.client.deadline import Deadline
    from kqueue.client.errors import BrokerUnreachable, ConnectionLost
    from kqueue.client.options import ClientOptions

    security = client_security()
    options = ClientOptions(bootstrap=str(address), client_id=CLIENT_ID, security=security)
    try:
        Connection(address, options, Deadline(int(timeout_s * 1000))).close()
    except BrokerUnreachable as error:
        if not isinstance(error.__cause__, ConnectionLost):
            raise OSError(str(error).removeprefix(f"{address}: ")) from None
        if security is None:
            raise OSError(MUTE) from None
        raise click.ClickException(str(error)) from None
    except KqueueError as error:
        raise click.ClickException(str(error)) from None


def broker_not_found(bootstrap: str, reason: str) -> BrokerNotFound:
    """Return the error for a bootstrap list without a broker, with what to do."""
    return BrokerNotFound(
        f"no broker answers at {bootstrap} ({reason}). Start one with `kqueue serve`, or name another with "
        "--bootstrap-server HOST:PORT."
    )
