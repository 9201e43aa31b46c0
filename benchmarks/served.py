"""The measured broker: a new `kqueue serve`, or an existing one; and what it
costs the machine.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from kqueue.testing.process_environment import process_environment

START_TIMEOUT_S = 30
PROCESS_CLOCK = 2
"""The clock of a process's CPU time, to the nanosecond, in the ids that Linux gives to clocks."""
WARM_CHUNK = bytes(2**20)


class Served:
    """A broker: where it listens and which process it is. `pid` None: its process is not on this
    machine, or not ours to see. `load_bootstrap`: where loads connect, and `tls` encrypts them.
    `start_s`: from its start until it served, if we started it.
    """

    def __init__(self, bootstrap: str, pid: int | None) -> None:
        self.bootstrap = self.load_bootstrap = bootstrap
        self.tls: ssl.SSLContext | None = None
        self.start_s = float("nan")
        self.pid = pid

    def cpu_s(self) -> float:
        """CPU time of all its threads so far, of those that have ended too."""
        if self.pid is None:
            return float("nan")
        if sys.platform == "linux":
            return time.clock_gettime(~self.pid << 3 | PROCESS_CLOCK)
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)

    @contextmanager
    def same_core(self) -> Iterator[bool]:
        """While it lasts the broker and this process run on one core, as far as the platform can;
        yields whether it can.

        What a request costs is then not what waking another core costs, which depends on the
        machine.
        """
        if self.pid is None or not hasattr(os, "sched_setaffinity"):
            yield False
            return
        before = os.sched_getaffinity(0)
        threads = [*self._threads(), 0]
        core = {max(before)}
        for thread in threads:
            os.sched_setaffinity(thread, core)
        try:
            yield True
        finally:
            for thread in threads:
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(thread, before)

    def _threads(self) -> list[int]:
        return [int(task.name) for task in Path(f"/proc/{self.pid}/task").iterdir()]

    def memory_bytes(self) -> int:
        return int(psutil.Process(self.pid).memory_info().rss) if self.pid is not None else 0


class ServedProcess(Served):
    """A broker that is a process of ours on a port of loopback.

    `folder`: is removed when it ends.
    """

    def __init__(self, command: Sequence[str], port: int, folder: Path) -> None:
        self.folder = folder
        self._log = (folder / "server.log").open("w")
        began = time.monotonic()
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, env=process_environment())
        super().__init__(f"127.0.0.1:{port}", self._process.pid)
        try:
            self._wait(port)
        except BaseException:
            self.stop()
            raise
        self.start_s = time.monotonic() - began

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def log(self) -> str:
        """What it has logged so far."""
        return (self.folder / "server.log").read_text()

    def kill(self) -> None:
        """End it as `kill -9` does; its data stay until `stop`."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(START_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _wait(self, port: int) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the broker did not start:\n{self.log()}")
            time.sleep(0.02)


class OwnBroker(ServedProcess):
    """`kqueue serve` with its data in a temporary folder, which goes when it ends.

    `flush`: kafka or group. `data`: a data folder that is there already, and stays. `more`: other
    settings. `workers`: with so many of them; 0: without `--workers`. `second`: name and port of a
    second listener; None: there is none. `command`: the module that runs it, with its arguments.
    `python`: the interpreter; another one than ours imports what is installed there.
    """

    def __init__(
        self,
        flush: str,
        data: Path | None = None,
        more: Mapping[str, str] | None = None,
        workers: int = 0,
        second: tuple[str, int] | None = None,
        command: Sequence[str] = ("kqueue.cli",),
        python: str = sys.executable,
    ) -> None:
        folder = temporary_folder()
        port = free_port(1 + workers)
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{port}"
            + (f",{second[0]}://127.0.0.1:{second[1]}" if second is not None else ""),
            "log.dirs": str(data or folder / "data"),
            "kqueue.flush": flush,
            **(more or {}),
        }
        pairs = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        if workers:
            pairs += ["--workers", str(workers)]
        # -P: a compiled kqueue is not found behind the sources of the folder where one is
        path = [] if python == sys.executable else ["-P"]
        super().__init__([python, *path, "-m", *command, "serve", *pairs], port, folder)


def temporary_folder() -> Path:
    """Return a new folder, which who asks for it removes."""
    return Path(tempfile.mkdtemp(prefix="kqueue-benchmark-"))


def external(bootstrap: str) -> Served:
    """Return the broker at this address; its process is found by its port."""
    port = int(bootstrap.rpartition(":")[2])
    with contextlib.suppress(psutil.Error):
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
                return Served(bootstrap, connection.pid)
    return Served(bootstrap, None)


def free_port(count: int = 1) -> int:
    """Return the first of so many free ports in a row."""
    while True:
        with contextlib.ExitStack() as probes, contextlib.suppress(OSError):
            first = probes.enter_context(socket.create_server(("127.0.0.1", 0)))
            port: int = first.getsockname()[1]
            for each in range(port + 1, port + count):
                probes.enter_context(socket.create_server(("127.0.0.1", each)))
            return port


def warm_pages(size: int) -> None:
    """Touch as much page cache as the loads will: on a fresh virtual machine a page's first use
    costs more than all we measure.
    """
    with tempfile.TemporaryFile() as file:
        for _ in range(size // len(WARM_CHUNK)):
            file.write(WARM_CHUNK)


def fsync_ms(folder: Path, rounds: int = 200) -> list[float]:
    """Return the milliseconds of each append of 1 KB with its fsync in this folder."""
    appends_ms = []
    path = folder / "fsync-probe"
    with path.open("wb", buffering=0) as file:
        for _ in range(rounds):
            started = time.perf_counter()
            file.write(bytes(1024))
            os.fdatasync(file.fileno()) if hasattr(os, "fdatasync") else os.fsync(file.fileno())
            appends_ms.append((time.perf_counter() - started) * 1000)
    path.unlink()
    return appends_ms
