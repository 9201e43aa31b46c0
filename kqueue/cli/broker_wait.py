"""Waiting for a broker that is not there yet: `--timeout`, and one line on standard error that says
so.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from kqueue.cli.connect import BrokerNotFound, find_broker

TIMEOUT_S = 10.0
NOTICE_DELAY_S = 1.0
RETRY_INTERVAL_S = 0.2
F = TypeVar("F", bound=Callable[..., Any])


def timeout_option(command: F) -> F:
    """Add ``--timeout SECONDS`` to a command; it arrives as the argument `timeout_s`."""
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
    """Say on standard error that the broker is waited for, if what is done within takes more than a
    second.
    """
    said = threading.Timer(NOTICE_DELAY_S, click.echo, [f"waiting for the broker at {bootstrap} ..."], {"err": True})
    said.daemon = True
    said.start()
    try:
        yield
    finally:
        said.cancel()
        said.join()


def await_broker(bootstrap: str, timeout_s: float) -> int:
    """Return once something listens at one of the addresses: the milliseconds that are left for its
    first answer, at least a second's.

    Raises BrokerNotFound: nothing did within `timeout_s` seconds; 0 looks once.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            find_broker(bootstrap)
            return int(max(deadline_s - time.monotonic(), 1.0) * 1000)
        except BrokerNotFound as error:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                waited = f" It was waited for {timeout_s:g} s; --timeout SECONDS waits longer." if timeout_s else ""
                raise BrokerNotFound(error.message + waited) from None
            time.sleep(min(RETRY_INTERVAL_S, left_s))
