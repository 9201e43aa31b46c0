"""Tells the service manager, as systemd with ``Type=notify``, that this process serves, hangs not,
and stops.

It listens at the socket that `NOTIFY_SOCKET` names; without the variable nothing is told. With
`WatchdogSec=` in the unit it restarts a process whose signs of life end: they come from the event
loop, so they end where that hangs. Source: systemd's sd_notify(3).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Iterator, Mapping

from kqueue.base import events

SOCKET = "NOTIFY_SOCKET"
WATCHDOG_US, WATCHDOG_PID = "WATCHDOG_USEC", "WATCHDOG_PID"
logger = logging.getLogger("kqueue.server")


class ServiceManager:
    """The one that started this process; see the module.

    Args: environment: its variables.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get(SOCKET, "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._sign_s = _sign_s(environment) if address else None
        self._next: asyncio.TimerHandle | None = None

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Tell that this process serves, within this `with`, and that it stops at its end. The loop
        must run.
        """
        self._tell("READY=1")
        self._give_sign()
        try:
            yield
        finally:
            # Signs go on: a stop that hangs is ended, too.
            self._tell("STOPPING=1")

    def close(self) -> None:
        """Give no more signs of life."""
        if self._next is not None:
            self._next.cancel()

    def _give_sign(self) -> None:
        if self._sign_s is not None:
            self._tell("WATCHDOG=1")
            self._next = asyncio.get_running_loop().call_later(self._sign_s, self._give_sign)

    def _tell(self, state: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | getattr(socket, "SOCK_CLOEXEC", 0)) as sender:
                sender.setblocking(False)
                sender.connect(self._address)
                sender.send(state.encode())
        except OSError as error:  # it may have gone, or be slow: the broker serves on
            events.SERVICE_MANAGER_UNREACHED.log(
                logger,
                "the service manager at %s was not told %s: %s",
                socket=SOCKET,
                state=state,
                error=error.strerror,
            )


def _sign_s(environment: Mapping[str, str]) -> float | None:
    """Return the seconds between signs of life, half of what it waits for; None: it wants none."""
    microseconds = environment.get(WATCHDOG_US, "")
    meant_for = environment.get(WATCHDOG_PID, "")
    if not microseconds.isdecimal() or int(microseconds) == 0 or meant_for not in ("", str(os.getpid())):
        return None
    return int(microseconds) / 2_000_000
