"""A process beside `kqueue serve`, with another command of kqueue, which ends with the broker.

Its standard input is a pipe that the broker's process holds open and never writes to. When that
process ends, also by SIGKILL, the system closes the pipe, and the command stops.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from kqueue.config.listeners import ListenerConfig

STOP_S = 10.0
LOOPBACK = "127.0.0.1"


@contextlib.contextmanager
def companion_process(command: str, arguments: Sequence[str]) -> Iterator[None]:
    """Run a command during a ``with`` block. It must take ``--while-stdin-is-open`` (`watch`)."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kqueue.cli", command, "--while-stdin-is-open", *arguments], stdin=subprocess.PIPE
    )
    try:
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def address_of(listener: ListenerConfig) -> str:
    """Return the address by which a process of this machine connects to a listener."""
    host = listener.bind.host
    if not host or host in ("0.0.0.0", "::"):
        host = LOOPBACK
    return f"[{host}]:{listener.bind.port}" if ":" in host else f"{host}:{listener.bind.port}"


def watch(stream: IO[bytes], stop: Callable[[], object]) -> None:
    """Call `stop` in a thread once a stream ends. What is written to it is ignored."""

    def wait() -> None:
        with contextlib.suppress(OSError, ValueError):
            while stream.read(1024):
                pass
        stop()

    threading.Thread(target=wait, name="kqueue-parent-watch", daemon=True).start()
