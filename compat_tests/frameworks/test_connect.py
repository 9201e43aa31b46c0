"""Kafka Connect 4.3 copies a file to a file through a topic, over a crash of the worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import kqueue
from compat_tests.frameworks import jvm
from compat_tests.frameworks.connect import TOPIC, DistributedWorker, sink, source, standalone
from compat_tests.frameworks.running import Program

LINES = 200


@pytest.fixture(autouse=True)
def _needs_connect() -> None:
    if reason := jvm.missing():
        pytest.skip(f"skipped, because {reason}")


class Copy:
    """The file that is read, and the one that is written."""

    def __init__(self, folder: Path) -> None:
        self.source = folder / "source"
        self.sink = folder / "sink"
        self.sent: list[str] = []

    def append(self) -> None:
        new = [f"line {len(self.sent) + number}" for number in range(LINES)]
        with self.source.open("a") as file:
            file.writelines(f"{line}\n" for line in new)
        self.sent += new

    def arrived(self) -> list[str]:
        return self.sink.read_text().split("\n")[:-1] if self.sink.exists() else []

    def is_complete(self) -> bool:
        return set(self.arrived()) == set(self.sent)

    def run_over_a_crash(self, worker: Program, begin: Callable[[], None] = lambda: None) -> None:
        self.append()
        with worker:
            begin()
            worker.wait_until(self.is_complete, "a copy of the first lines")
            self.append()
            worker.crash()
            self.append()
            worker.wait_until(self.is_complete, "a copy of all lines")


def without_repeats(lines: list[str]) -> list[str]:
    return list(dict.fromkeys(lines))


def test_a_standalone_worker_copies_each_line(broker: kqueue.Broker, tmp_path: Path) -> None:
    copy = Copy(tmp_path)
    broker.create_topic(TOPIC)
    copy.run_over_a_crash(standalone(broker.bootstrap, tmp_path / "app", source(copy.source), sink(copy.sink)))
    assert without_repeats(copy.arrived()) == copy.sent


def test_a_distributed_worker_reads_each_line_exactly_once(broker: kqueue.Broker, tmp_path: Path) -> None:
    """The source's records and offsets are in one transaction (KIP-618)."""
    copy = Copy(tmp_path)
    broker.create_topic(TOPIC)
    worker = DistributedWorker(broker.bootstrap, tmp_path / "app")

    def begin() -> None:
        worker.create(source(copy.source, exactly_once_support="required"))
        worker.create(sink(copy.sink))

    copy.run_over_a_crash(worker, begin)
    records = broker.topics[TOPIC].records(read_committed=True)
    assert [(one.value or b"").decode() for one in records] == copy.sent
    own = {name: broker.topics[name].config["cleanup.policy"] for name in broker.topics if name.startswith("connect-")}
    assert own == {f"connect-{kind}": ["compact"] for kind in ("config", "offset", "status")}
