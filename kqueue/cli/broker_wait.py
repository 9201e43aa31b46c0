"""The wait for a broker that does not answer yet, with a notice on standard error.

One rule for all client commands: `find_broker` waits as long as `--timeout` says.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import click

from kqueue.base.addresses import Address
from kqueue.base.clock import monotonic_s
from kqueue.base.errors import KqueueError
from kqueue.cli.client_access import addresses, client_access, client_security

CLIENT_ID = "kqueue-cli"
PROBE_TIMEOUT_S = 3.0
SECURE_TIMEOUT_MS = 10_000
NOTICE_DELAY_S = 1.0
RETRY_INTERVAL_S = 0.2


class BrokerNotFound(click.ClickException):
    """No server listens at any of the addresses, or it is not a broker."""


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
    """Wait until a broker listens, as long as the running command's `--timeout` says.

    Raises: BrokerNotFound. ClickException: TLS or SASL failed.
    """
    timeout_s = client_access().timeout_s
    if not timeout_s:
        probe_broker(bootstrap)
        return
    with waiting(bootstrap):
        await_broker(bootstrap, timeout_s)


def await_broker(bootstrap: str, timeout_s: float) -> int:
    """Wait until a server listens at one of the addresses.

    Args:
        timeout_s: seconds; 0 tries once.
    Returns: the milliseconds that remain for its first response, 1,000 at least.
    Raises: BrokerNotFound: no server listened in time. ClickException: TLS or SASL failed.
    """
    deadline_s = monotonic_s() + timeout_s
    while True:
        try:
            probe_broker(bootstrap)
            return int(max(deadline_s - monotonic_s(), 1.0) * 1000)
        except BrokerNotFound as error:
            remaining_s = deadline_s - monotonic_s()
            if remaining_s <= 0:
                waited = f" The command waited {timeout_s:g} s; --timeout SECONDS changes this." if timeout_s else ""
                raise BrokerNotFound(error.message + waited) from None
            time.sleep(min(RETRY_INTERVAL_S, remaining_s))


def probe_broker(bootstrap: str) -> None:
    """Check that a server listens at one of the addresses, before a client runs into its timeout.

    Raises: BrokerNotFound: with the reason for each address. ClickException: TLS or SASL failed.
    """
    reasons = []
    is_secure = client_security() is not None
    for host, port in addresses(bootstrap):
        try:
            if is_secure:
                _connect_securely(Address(host, port))
            else:
                socket.create_connection((host, port), timeout=PROBE_TIMEOUT_S).close()
            return
        except OSError as error:
            reasons.append((f"{host}:{port}", error.strerror or str(error)))
    if len(reasons) == 1:
        raise broker_not_found(bootstrap, reasons[0][1])
    raise broker_not_found(bootstrap, "; ".join(map(": ".join, reasons)))


def _connect_securely(address: Address) -> None:
    """Connect with TLS and SASL, by our own client, because it says what is wrong.

    A connection without a handshake would be a line in the broker's log for each command.

    Raises: OSError: no server listens. ClickException: TLS or SASL failed.
    """
    from kqueue.client.connection import Connection
    from kqueue.client.deadline import Deadline
    from kqueue.client.errors import BrokerUnreachable, ConnectionLost
    from kqueue.client.options import ClientOptions

    options = ClientOptions(bootstrap=str(address), client_id=CLIENT_ID, security=client_security())
    try:
        Connection(address, options, Deadline(SECURE_TIMEOUT_MS)).close()
    except BrokerUnreachable as error:
        if isinstance(error.__cause__, ConnectionLost):  # something listens there
            raise click.ClickException(str(error)) from None
        raise OSError(str(error).removeprefix(f"{address}: ")) from None
    except KqueueError as error:
        raise click.ClickException(str(error)) from None


def broker_not_found(bootstrap: str, reason: str) -> BrokerNotFound:
    """Return the error for a bootstrap list without a broker, with what to do."""
    return BrokerNotFound(
        f"no broker answers at {bootstrap} ({reason}). Start one with `kqueue serve`, or name another with "
        "--bootstrap-server HOST:PORT."
    )
