"""The wait for a broker that does not answer yet: `--timeout`, and a notice on standard error."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from kqueue.base.clock import monotonic_s
from kqueue.cli.connect import BrokerNotFound, find_broker

TIMEOUT_S = 10.0
NOTICE_DELAY_S = 1.0
RETRY_INTERVAL_S = 0.2
F = TypeVar("F", bound=Callable[..., Any])


def timeout_option(command: F) -> F:
    """Add ``--timeout SECONDS`` to a command, as its argument `timeout_s`."""
    return click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(min=0),
        default=TIMEOUT_S,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for a broker that does not answer; 0 tries once.",
    )(command)


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


def await_broker(bootstrap: str, timeout_s: float) -> int:
    """Wait until a server listens at one of the addresses.

    Args:
        timeout_s: seconds; 0 tries once.
    Returns: the milliseconds that remain for its first response, 1,000 at least.
    Raises: BrokerNotFound: no server listened in time.
    """
    deadline_s = monotonic_s() + timeout_s
    while True:
        try:
            find_broker(bootstrap)
            return int(max(deadline_s - monotonic_s(), 1.0) * 1000)
        except BrokerNotFound as error:
            remaining_s = deadline_s - monotonic_s()
            if remaining_s <= 0:
                waited = f" The command waited {timeout_s:g} s; --timeout SECONDS changes this." if timeout_s else ""
                raise BrokerNotFound(error.message + waited) from None
            time.sleep(min(RETRY_INTERVAL_S, remaining_s))
