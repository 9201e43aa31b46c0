"""Processes of kqueue that tests start, with the settings of `deploy/`."""

from __future__ import annotations

import contextlib
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from kqueue.testing.process_environment import process_environment


@contextlib.contextmanager
def running(words: list[str], variables: dict[str, str], log: Path) -> Iterator[None]:
    """Run `kqueue` as a process of this machine; it has to stop cleanly at the end."""
    with log.open("w") as output, subprocess.Popen(
        [sys.executable, "-m", "kqueue.cli", *words],
        cwd=log.parent, env=process_environment(**variables), stdout=output, stderr=output,
    ) as process:  # fmt: skip
        try:
            yield
            process.terminate()
            assert process.wait(60) in (0, 143, -15), log.read_text()
        finally:
            process.kill()


def free_ports(count: int) -> list[int]:
    """Return ports below those that systems give to clients, which could take them meanwhile."""
    ports: list[int] = []
    with contextlib.ExitStack() as stack:
        while len(ports) < count:
            port = random.randrange(11_000, 32_000)
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
                ports.append(port)
    return ports
