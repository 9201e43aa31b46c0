"""`kqueue serve` with the variable set, killed and started again while it archives."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kqueue_cleanup_archive.policy import VARIABLE
from logs import archived, files, whole_files

from kqueue.testing.process_environment import process_environment

T = TypeVar("T")
SETTINGS = {
    "log.retention.check.interval.ms": 300,
    "log.cleanup.policy": "archive",
    "log.retention.ms": 1000,
    "log.segment.bytes": 20_000,
    "num.partitions": 3,
}


def until(what: str, look: Callable[[], T], holds: Callable[[T], object]) -> None:
    deadline = time.monotonic() + 60
    while not holds(seen := look()):
        assert time.monotonic() < deadline, f"{what}; seen: {seen}"
        time.sleep(0.02)


@contextmanager
def served(folder: Path, port_file: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    arguments = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    arguments += ["--set", f"log.dirs={folder / 'data'}", "--set", "listeners=PLAINTEXT://127.0.0.1:0"]
    with port_file.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "kqueue.cli", "serve", *arguments],
            env=process_environment(**{VARIABLE: str(folder / "archive")}),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        until("an address", port_file.read_text, lambda said: "127.0.0.1:" in said or process.poll() is not None)
        assert process.poll() is None, port_file.read_text()
        yield process, "127.0.0.1:" + port_file.read_text().partition("127.0.0.1:")[2].split()[0].strip(".,;)")
    finally:
        process.kill()
        process.wait(30)


def starts_and_ends(bootstrap: str) -> tuple[list[int], list[int]]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        places = [TopicPartition("orders", number) for number in range(3)]
        return list(consumer.beginning_offsets(places).values()), list(consumer.end_offsets(places).values())
    finally:
        consumer.close()


def test_killed_again_and_again_while_it_archives_each_record_is_there_once(tmp_path: Path) -> None:
    sent = 0
    for life in range(2):
        with served(tmp_path, tmp_path / f"{life}.log") as (process, bootstrap):
            producer = KafkaProducer(bootstrap_servers=bootstrap, batch_size=2000, linger_ms=5)
            try:
                for _ in range(2000):
                    producer.send("orders", b"coffee %d" % sent)
                    sent += 1
                producer.flush(timeout=30)
            finally:
                producer.close(timeout=30)
            count = len(files(tmp_path / "archive"))
            until("more files", lambda: len(files(tmp_path / "archive")), count.__lt__)
            process.send_signal(signal.SIGKILL)
            process.wait(30)
    with served(tmp_path, tmp_path / "last.log") as (_, bootstrap):
        until("starts that are ends", lambda: starts_and_ends(bootstrap), lambda offsets: offsets[0] == offsets[1])
    values = [int(value[7:]) for value in archived(tmp_path / "archive")["value"].to_pylist()]
    assert sorted(values) == list(range(sent))
    assert files(tmp_path / "archive") == whole_files(tmp_path / "archive")
