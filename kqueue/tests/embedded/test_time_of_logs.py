"""Effects of `advance` on logs, as stock clients see them: retention, deletion, compaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import kqueue
from kqueue.log.log import Log
from kqueue.tests.embedded.clients import KINDS, POLL_MS, Clients, clients
from kqueue.tests.thorough import corners

Opened = Callable[..., Clients]


@pytest.fixture(params=corners(sorted(KINDS)))
def opened(request: pytest.FixtureRequest) -> Iterator[Opened]:
    """A broker with these settings, and the clients of one library."""
    with ExitStack() as stack:

        def open_(path: Path | None = None, **settings: Any) -> Clients:
            return stack.enter_context(clients(request.param, stack.enter_context(kqueue.Broker(path, **settings))))

        yield open_


def log_of(client: Clients, topic: str = "t") -> Log:
    async def ask() -> Log:
        return client.broker._server.broker.topics.partition(topic, 0).log

    return client.broker._call(ask)


def values(client: Clients, topic: str) -> list[bytes]:
    """Return all values that a consumer now reads from the topic."""
    consumer = client.consumer(topic)
    first, end = consumer.end_offsets(topic)
    if first == end:
        return []
    polled: list[Any] = []
    while not polled or polled[-1].offset < end - 1:
        polled += consumer.poll(POLL_MS)
    return [record.value for record in polled]


@pytest.mark.parametrize("storage", corners(["memory", "disk"], "disk"))
def test_records_are_deleted_after_their_retention(opened: Opened, storage: str, tmp_path: Path) -> None:
    client = opened(tmp_path if storage == "disk" else None)
    client.broker.create_topic("week")
    client.broker.create_topic("ever", retention_ms=-1)
    for topic in ("week", "ever"):
        client.send(topic, b"a", b"b")
    client.broker.clock.advance(days=6, hours=23)
    assert values(client, "week") == values(client, "ever") == [b"a", b"b"]
    client.broker.clock.advance(hours=2)
    assert client.consumer().end_offsets("week") == (2, 2)
    assert values(client, "ever") == [b"a", b"b"]


def test_retention_uses_create_time_or_log_append_time(opened: Opened) -> None:
    client = opened()
    client.broker.create_topic("theirs")
    client.broker.create_topic("ours", message_timestamp_type="LogAppendTime")
    client.broker.clock.advance(days=8)
    for topic in ("theirs", "ours"):
        client.send(topic, b"new")
    client.broker.create_topic("told")
    client.send("told", b"new", timestamp_ms=int(client.broker.clock.now().timestamp() * 1000))
    client.broker.clock.advance(minutes=5)
    assert (values(client, "theirs"), values(client, "ours"), values(client, "told")) == ([], [b"new"], [b"new"])


def test_segments_roll_by_age(opened: Opened) -> None:
    client = opened()
    client.broker.create_topic(
        "t", segment_ms=3_600_000, message_timestamp_type="LogAppendTime", retention_ms=3 * 3_600_000
    )
    client.send("t", b"first")
    client.broker.clock.advance(hours=2)
    client.send("t", b"second")
    client.broker.clock.advance(hours=2)
    assert values(client, "t") == [b"second"], "each was in a segment of its own"


def test_deleted_files_are_removed_after_their_delay(opened: Opened, tmp_path: Path) -> None:
    client = opened(tmp_path)
    client.broker.create_topic("t", retention_ms=3_600_000, file_delete_delay_ms=600_000)
    client.send("t", b"a")

    def files() -> list[str]:
        return sorted(path.name for path in (tmp_path / "t-0").glob("0" * 20 + "*") if path.suffix != ".snapshot")

    assert files() == ["0" * 20 + ending for ending in (".index", ".log", ".timeindex")]
    client.broker.clock.advance(minutes=65)
    assert files() == ["0" * 20 + ending for ending in (".index.deleted", ".log.deleted", ".timeindex.deleted")]
    client.broker.clock.advance(minutes=4)
    assert len(files()) == 3
    client.broker.clock.advance(minutes=6)
    assert files() == []


@pytest.mark.parametrize("storage", corners(["memory", "disk"], "disk"))
def test_compaction_waits_for_its_lag(opened: Opened, storage: str, tmp_path: Path) -> None:
    client = opened(tmp_path if storage == "disk" else None)
    client.broker.create_topic("t", cleanup_policy="compact", segment_bytes=1024, min_compaction_lag_ms=86_400_000)
    numbers = [b"%d " % number + b"." * 200 for number in range(12)]
    client.send("t", *numbers, key=b"k")
    client.broker.clock.advance(hours=23)
    assert values(client, "t") == numbers
    client.broker.clock.advance(hours=2)
    left = values(client, "t")
    assert left == numbers[-len(left) :]
    assert len(left) <= 5, "of the ended segments the last value stays, and the active one is left alone"


def test_compaction_runs_after_its_maximum_lag(opened: Opened) -> None:
    client = opened()
    never_dirty = {"min_cleanable_dirty_ratio": 1, "message_timestamp_type": "LogAppendTime", "segment_ms": 60_000}
    client.broker.create_topic("t", cleanup_policy="compact", max_compaction_lag_ms=7_200_000, **never_dirty)
    client.send("t", b"old", b"newer", key=b"k")
    client.broker.clock.advance(minutes=2)
    client.send("t", b"newest", key=b"k")
    client.broker.clock.advance(hours=1)
    assert values(client, "t") == [b"old", b"newer", b"newest"]
    client.broker.clock.advance(hours=2)
    assert values(client, "t") == [b"newer", b"newest"]


def test_tombstones_are_removed_after_their_retention(opened: Opened) -> None:
    client = opened()
    client.broker.create_topic(
        "t", cleanup_policy="compact", segment_ms=1000, delete_retention_ms=86_400_000, min_cleanable_dirty_ratio=0
    )
    now_ms = int(client.broker.clock.now().timestamp() * 1000)

    def send(value: bytes | None, key: bytes, after_ms: int) -> None:
        client.send("t", value, key=key, timestamp_ms=now_ms + after_ms)

    for number, (value, key) in enumerate([(b"value", b"gone"), (None, b"gone"), (b"other", b"x"), (b"end", b"y")]):
        send(value, key, number * 2000)
    client.broker.clock.advance(hours=1)
    assert values(client, "t") == [None, b"other", b"end"]
    client.broker.clock.advance(days=2)
    send(b"more", b"x", 10_000)  # something to clean, so that the cleaner runs again
    send(b"last", b"z", 12_000)
    client.broker.clock.advance(minutes=1)
    assert values(client, "t") == [b"end", b"more", b"last"]


def test_inactive_producers_expire(opened: Opened) -> None:
    """The producers of both clients are idempotent; the broker keeps their state to detect
    duplicates.
    """
    client = opened()
    client.broker.create_topic("t", retention_ms=-1)
    client.send("t", b"a")
    assert len(log_of(client).producers) == 1
    client.broker.clock.advance(hours=23)
    assert len(log_of(client).producers) == 1
    client.broker.clock.advance(hours=2)
    assert len(log_of(client).producers) == 0
    client.send("t", b"b", b"c")
    assert values(client, "t") == [b"a", b"b", b"c"]


def test_logs_are_flushed_by_time(opened: Opened, tmp_path: Path) -> None:
    client = opened(tmp_path, kqueue_flush="kafka")
    client.broker.create_topic("t", flush_ms=600_000)
    client.send("t", b"a")
    client.broker.clock.advance(seconds=1)  # the folder is new, which is flushed at once
    client.send("t", b"b")
    client.broker.clock.advance(minutes=9)
    assert log_of(client).flushed_offset == 1
    client.broker.clock.advance(minutes=2)
    assert log_of(client).flushed_offset == 2


def test_checkpoints_are_written_at_their_intervals(opened: Opened, tmp_path: Path) -> None:
    client = opened(tmp_path)
    client.broker.create_topic("t")
    client.send("t", b"a", b"b", b"c")

    def line(name: str) -> list[str]:
        path = tmp_path / name
        return [line for line in path.read_text().splitlines() if line.startswith("t 0")] if path.exists() else []

    client.broker.clock.advance(seconds=6)
    assert (line("replication-offset-checkpoint"), line("recovery-point-offset-checkpoint")) == (["t 0 3"], [])
    client.broker.clock.advance(seconds=60)
    assert line("recovery-point-offset-checkpoint") == ["t 0 3"]
