"""Reader states that are hard to reach from outside; test_consume.py covers the others."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import click
import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import NewPartitions
from kafka.errors import KafkaTimeoutError

import kqueue
from kqueue.cli import topic_reader
from kqueue.cli.formats import formatter
from kqueue.cli.topic_reader import ReaderLimits, TopicReader
from kqueue.testing import faults
from kqueue.tests.waits import eventually

PLACE = TopicPartition("orders", 0)


class LostConsumer:
    """A consumer whose broker has gone."""

    _coordinator = SimpleNamespace(rejoining=False)

    def __init__(self) -> None:
        self.closed = False

    def assignment(self) -> set[TopicPartition]:
        return {PLACE}

    def commit(self, offsets: object, timeout_ms: int) -> None:
        raise KafkaTimeoutError("no answer")

    def close(self, autocommit: bool, timeout_ms: int) -> None:
        assert not autocommit
        self.closed = True


def opened(consumer: object, out: object = None, **ends: int) -> TopicReader:
    """Return a reader in the state after `open` in a group."""
    reader = TopicReader("orders", formatter("value"), out or io.BytesIO(), ReaderLimits(**ends), str)  # type: ignore[arg-type]
    reader._consumer, reader._in_group = consumer, True
    return reader


def test_failed_commit_is_reported() -> None:
    consumer = LostConsumer()
    lost = opened(consumer)
    lost._next[PLACE] = 7
    with pytest.raises(
        click.ClickException, match="could not be committed and will be delivered again: the broker does not answer"
    ):
        lost.close()
    assert consumer.closed
    lost._committed[PLACE] = 7
    lost.close()  # nothing is left to commit


class Message:
    """A record of `PLACE`."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.value = b"%d" % offset


class SlowGroup:
    """A consumer that gets its partition at the third poll; each poll advances the clock by one
    second.
    """

    _coordinator = SimpleNamespace(rejoining=False)

    def __init__(self, clock: list[float], joins: bool = True) -> None:
        self.clock = clock
        self.joins = joins
        self.polls = 0
        self.committed: list[Any] = []

    def poll(self, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[Message]]:
        self.polls += 1
        self.clock[0] += 1
        return {PLACE: [Message(4), Message(5)]} if self.joins and self.polls == 4 else {}

    def assignment(self) -> set[TopicPartition]:
        return {PLACE} if self.joins and self.polls >= 3 else set()

    def position(self, partition: TopicPartition, timeout_ms: int) -> int:
        return 4

    def commit(self, offsets: dict[TopicPartition, Any], timeout_ms: int) -> None:
        self.committed.append({place: offset.offset for place, offset in offsets.items()})


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now_s = [100.0]
    monkeypatch.setattr("kqueue.cli.topic_reader.monotonic_s", lambda: now_s[0])
    return now_s


def test_joining_does_not_count_as_idle(clock: list[float]) -> None:
    group, out = SlowGroup(clock), io.BytesIO()
    opened(group, out, timeout_ms=1500).run()
    assert out.getvalue() == b"4\n5\n"
    assert group.polls == 6, "two seconds of silence after the records"
    assert group.committed == [{PLACE: 4}, {PLACE: 6}], "where the group began, and what was printed"


def test_member_without_partitions_ends_too(clock: list[float]) -> None:
    group = SlowGroup(clock, joins=False)
    opened(group, timeout_ms=1500).run()
    assert group.polls == topic_reader.JOIN_S + 1


class FullPipe(io.BytesIO):
    """Takes one line; then its reader has gone."""

    def writelines(self, lines: Iterable[Any]) -> None:
        for line in lines:
            if self.getvalue():
                raise BrokenPipeError
            self.write(line)


def test_unprinted_records_are_not_committed(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[Callable[[], None] | None] = []
    monkeypatch.setattr(topic_reader, "discard_output", lambda: forgotten.append(None))
    group = SlowGroup(clock)
    broken = opened(group, FullPipe())
    broken.run()
    broken._commit()
    assert forgotten == [None]
    assert group.committed == [{PLACE: 4}]


def test_positions_of_revoked_partitions_are_dropped() -> None:
    reader = opened(LostConsumer())
    reader._next[PLACE] = reader._committed[PLACE] = 7
    reader._commit_revoked([PLACE])
    assert (reader._next, reader._committed) == ({}, {})


def test_a_member_joins_once_though_metadata_comes_again() -> None:
    """A second join could end a poll, and kafka-python 3.0 loses its assignment then."""
    reader = TopicReader("orders", formatter("value"), io.BytesIO(), ReaderLimits(timeout_ms=1000), str)
    with kqueue.Broker() as broker:
        broker.create_topic("orders")
        options = {"bootstrap_servers": broker.bootstrap, "group_id": "readers", "metadata_max_age_ms": 600}
        reader.open(options)
        reader.subscribe("earliest", None)
        reader.run()
        reader.close()
        joins = [request.api for request in broker.requests if request.api in ("JoinGroup", "SyncGroup")]
    assert joins == ["JoinGroup", "JoinGroup", "SyncGroup"], "the first is refused and names the member id"


def test_a_join_that_outlasts_its_poll_is_taken_up() -> None:
    out = io.BytesIO()
    reader = TopicReader("orders", formatter("value"), out, ReaderLimits(max_messages=2), str)
    with (
        kqueue.Broker() as broker,
        faults(broker) as made,
        KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin,
    ):
        broker.create_topic("orders")
        broker.topics["orders"].produce("one")
        options = {"group_id": "mail", "auto_offset_reset": "earliest", "metadata_max_age_ms": 100}
        reader.open({"bootstrap_servers": broker.bootstrap, **options})
        reader.subscribe("earliest", None)
        running = threading.Thread(target=reader.run)
        running.start()
        eventually(lambda: out.getvalue() == b"one\n")
        made.delay("SyncGroup", ms=3 * topic_reader.POLL_MS, times=1)
        admin.create_partitions({"orders": NewPartitions(2)})
        broker.topics["orders"].produce("two", partition=1)
        running.join(60)
        reader.stop()
        running.join()
        reader.close()
    assert out.getvalue() == b"one\ntwo\n"
