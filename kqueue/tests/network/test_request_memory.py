"""The costliest requests of every served API, sent to a broker in its own process.

Resident memory must grow by less than 256 MiB.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kqueue.api import handler_table
from kqueue.base.settings import MiB
from kqueue.client import Client, NewTopic
from kqueue.network.dispatch import ITEMS_MAX_DEFAULT, PRODUCE_KEY
from kqueue.testing.process_environment import process_environment
from kqueue.tests.costliest import DISTINCT, KNOWN, SAME, Body, Case, cases
from kqueue.tests.thorough import corners
from kqueue.wire.headers import request_header

GROWTH_MAX_BYTES = 256 * MiB
ANSWER_TIMEOUT_S = 240
DEFAULT_APIS = ("Produce",)
"""What clients send most; the thorough tests send the requests of all."""
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


class Broker:
    """A served broker that listens on `bootstrap`."""

    def __init__(self, process: subprocess.Popen[bytes], bootstrap: str, topic_id: bytes) -> None:
        self.pid = process.pid
        self.bootstrap = bootstrap
        self.topic_id = topic_id

    def memory(self, key: str) -> int:
        """``VmRSS`` (now) or ``VmHWM`` (peak), in bytes."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key + ":"))

    def send(self, payload: bytes) -> None:
        """Send one request; read its response, or the end of the connection."""
        host, _, port = self.bootstrap.rpartition(":")
        with (
            socket.create_connection((host, int(port)), timeout=ANSWER_TIMEOUT_S) as sock,
            contextlib.suppress(ConnectionError),
        ):
            sock.sendall(len(payload).to_bytes(4, "big") + payload)
            left = int.from_bytes(sock.recv(4, socket.MSG_WAITALL), "big")
            while left:
                received = len(sock.recv(min(left, MiB)))
                assert received, "the answer is cut"
                left -= received


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("broker")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        bootstrap = f"127.0.0.1:{probe.getsockname()[1]}"
    settings = {"listeners": f"PLAINTEXT://{bootstrap}", "log.dirs": str(folder / "data")}
    command = [
        sys.executable,
        "-m",
        "kqueue.cli",
        "serve",
        *(part for pair in settings.items() for part in ("--set", "=".join(pair))),
    ]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, env=process_environment()) as process,
    ):
        try:
            with Client(bootstrap, timeout_ms=30_000) as client:
                client.create_topics([NewTopic("t", 1)])
                yield Broker(process, bootstrap, client.topic_id("t"))
        finally:
            os.kill(process.pid, signal.SIGTERM)


def costliest(row: handler_table.ApiHandler, version: int) -> Iterator[tuple[Case, int | None]]:
    """Return, for each list, the entries with the highest cost.

    There is one case with as many entries as allowed, and, for the last list, one with as many as a
    request has bytes: all are refused at the same count.
    """
    path: tuple[str, ...] | None = None
    for path in dict.fromkeys(case.path for case in cases(row.api.request_class, version) if case.path):
        modes = [case.mode for case in cases(row.api.request_class, version) if case.path == path]
        yield (
            Case(path, next(mode for mode in (DISTINCT, KNOWN, SAME) if mode in modes)),
            ITEMS_MAX_DEFAULT // row.item_weight - 8,
        )
    if path is not None:
        yield Case(path, SAME), None


ROWS = {row.api.name: row for row in handler_table.all_handlers()}


@pytest.mark.parametrize("api", corners(ROWS, *DEFAULT_APIS))
def test_resident_memory_growth_is_bounded(broker: Broker, api: str) -> None:
    row = ROWS[api]
    version = row.versions[1]
    size = (100 if row.api.key == PRODUCE_KEY else 16) * MiB - 1024
    header = request_header(row.api.key, version, 1, "costly")
    for case, items_max in costliest(row, version):
        body = Body(
            row.api.request_class,
            version,
            case,
            size_max=size - len(header),
            items_max=items_max,
            topic_id=broker.topic_id,
        )
        Path(f"/proc/{broker.pid}/clear_refs").write_text("5")  # resets the peak
        before = broker.memory("VmRSS")
        broker.send(header + body.bytes())
        assert broker.memory("VmHWM") - before < GROWTH_MAX_BYTES, f"{case}, {items_max} items"
