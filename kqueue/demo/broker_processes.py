"""Brokers in processes of their own, which can be killed, paused and started again."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from kqueue.base.clock import monotonic_s
from kqueue.base.errors import KqueueError
from kqueue.client import Client
from kqueue.client.errors import ClientError
from kqueue.config.environment import ENVIRONMENT_PREFIX

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
POLL_S = 0.05
SERVES = re.compile(r"kqueue \S+ serves ")
PORTS = range(20_000, 30_000)
"""Below those that systems hand out by themselves: they stay free while a broker is down."""


class BrokerFailed(KqueueError):
    """A broker's process ended, or did not start in time. The message has its last lines."""


class BrokerProcess:
    """`kqueue serve` as a process, on the same folder and port each time it is started.

    Args:
        folder: for its data (`data`) and its log lines (`broker.log`); made if it is missing.
        settings: by name, beside `node.id`, `log.dirs` and `listeners`.
    """

    def __init__(self, node_id: int, folder: Path, port: int, settings: Mapping[str, object]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.node_id = node_id
        self.data = folder / "data"
        self.log_file = folder / "broker.log"
        self.bootstrap = f"127.0.0.1:{port}"
        values = {"node.id": node_id, "log.dirs": self.data, "listeners": f"PLAINTEXT://{self.bootstrap}", **settings}
        self.settings = dict(values)
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0

    @property
    def runs(self) -> bool:
        """Whether the process exists; it may be paused."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id. The process must run."""
        assert self._process is not None, "the broker does not run"
        return self._process.pid

    def launch(self) -> None:
        """Start the process, and return before it serves. A session of its own keeps Ctrl-C from
        it.
        """
        pairs = [text for name, value in self.settings.items() for text in ("--set", f"{name}={value}")]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)}
        with self.log_file.open("ab") as log:
            self._began = log.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kqueue.cli", "serve", *pairs],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=kept,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Return once it serves. Raises: BrokerFailed."""
        deadline_s = monotonic_s() + START_TIMEOUT_S
        while not SERVES.search(self.said()[self._began :]):
            if not self.runs or monotonic_s() > deadline_s:
                self.kill()
                last = "\n".join(self.said().splitlines()[-10:])
                raise BrokerFailed(f"broker {self.node_id} did not start:\n{last}")
            time.sleep(POLL_S)

    def start(self) -> None:
        """Start, and return once it serves. Raises: BrokerFailed."""
        self.launch()
        self.wait()

    def kill(self) -> None:
        """End it as a crash would (SIGKILL); no effect if it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Hold the process (SIGSTOP)."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on (SIGCONT)."""
        os.kill(self.pid, signal.SIGCONT)

    def terminate(self) -> None:
        """Ask it to stop (SIGTERM)."""
        os.kill(self.pid, signal.SIGTERM)

    def stop(self) -> None:
        """Stop cleanly, or after `STOP_TIMEOUT_S` by force; no effect if it does not run."""
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_TIMEOUT_S)
        self.kill()

    def said(self) -> str:
        """Return all lines of its log."""
        return self.log_file.read_text("utf-8", "replace") if self.log_file.exists() else ""


class ClusterOfProcesses:
    """Brokers 1 to `count`, each in a folder `broker-N` of `folder`. `with` starts them, and kills
    those that run at the end.

    Args: settings: of all brokers.
    """

    def __init__(self, folder: Path, settings: Mapping[str, object], count: int = 3) -> None:
        self.brokers = {
            number: BrokerProcess(number, folder / f"broker-{number}", port, settings)
            for number, port in enumerate(free_ports(count), 1)
        }

    def __enter__(self) -> ClusterOfProcesses:
        try:
            for broker in self.brokers.values():
                broker.launch()
            for broker in self.brokers.values():
                broker.wait()
            self.await_brokers(self.brokers.keys())
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def data_folders(self) -> list[Path]:
        """The data folder of each broker."""
        return [broker.data for broker in self.brokers.values()]

    def client(self, bootstrap: str | None = None) -> Client:
        """Return a client for short requests. `bootstrap`: None: any broker."""
        return Client(
            bootstrap or self.bootstrap, timeout_ms=20_000, request_timeout_ms=2_000, connect_timeout_ms=2_000
        )

    def await_brokers(self, ids: Collection[int]) -> None:
        """Return once the brokers that are not fenced are these. Raises: BrokerFailed."""
        wanted = set(ids)
        with self.client() as client:
            until(f"brokers {sorted(wanted)} are in", lambda: client.metadata([]).brokers.keys() == wanted)

    def await_in_sync(self, *topics: str) -> None:
        """Return once all replicas of these topics are in sync. Raises: BrokerFailed."""
        with self.client() as client:
            until("all replicas are in sync", lambda: is_in_sync(client, topics))

    def stop(self) -> None:
        """Stop all brokers cleanly, at the same time."""
        for broker in self.brokers.values():
            if broker.runs:
                broker.terminate()
        for broker in self.brokers.values():
            broker.stop()

    def kill(self) -> None:
        """End all processes."""
        for broker in self.brokers.values():
            broker.kill()


def is_in_sync(client: Client, topics: Sequence[str]) -> bool:
    """Return whether all replicas of these topics are in sync, and all have a leader."""
    described = client.metadata(topics).topics
    return all(
        partition.leader >= 0 and set(partition.in_sync) == set(partition.replicas)
        for topic in topics
        for partition in described[topic].partitions.values()
    )


def until(what: str, holds: Callable[[], bool], timeout_s: float = 60.0) -> float:
    """Wait until `holds()`; client errors count as "not yet". Returns: seconds it took.

    Raises: BrokerFailed: it does not within `timeout_s`.
    """
    began_s = monotonic_s()
    error: ClientError | None = None
    while True:
        try:
            if holds():
                return monotonic_s() - began_s
        except ClientError as failure:
            error = failure
        if monotonic_s() - began_s > timeout_s:
            raise BrokerFailed(f"not within {timeout_s:.0f} s: {what}" + (f" ({error})" if error else ""))
        time.sleep(POLL_S)


def free_ports(count: int) -> list[int]:
    """Return different ports that are free now, and that no system hands out by itself."""
    with contextlib.ExitStack() as stack:
        ports: list[int] = []
        while len(ports) < count:
            probe = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                port = random.choice(PORTS)
                probe.bind(("127.0.0.1", port))
                ports.append(port)
        return ports
