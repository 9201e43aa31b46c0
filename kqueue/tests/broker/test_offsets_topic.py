from __future__ import annotations

import pytest

from kqueue.base.errors import InvalidCommitOffsetSize, KqueueError, RecordTooLarge, StorageFailed
from kqueue.broker.offsets_topic import OffsetsTopicLog
from kqueue.broker.topics import OFFSETS_TOPIC
from kqueue.groups.offset_manager import OffsetToCommit
from kqueue.records.batch import ABORT, COMMIT, Record, control_key_value, read_header
from kqueue.records.builder import build_batch
from kqueue.testing.simulation import Simulation


def log_of(sim: Simulation) -> OffsetsTopicLog:
    return sim.broker._group_log


def test_the_topic_and_a_folder_come_with_the_first_append_and_done_with_the_flush() -> None:
    sim = Simulation({"offsets.topic.num.partitions": 5})
    news = list[KqueueError | None]()
    assert log_of(sim).partition_count == 5
    log_of(sim).append(3, [(b"k", b"v"), (b"gone", None)], news.append)
    assert news == []
    sim.settle()
    assert news == [None]
    assert [entry.name for entry in sim.storage.list("") if entry.name.startswith(OFFSETS_TOPIC)] == [
        f"{OFFSETS_TOPIC}-3"
    ]
    partition = sim.broker.topics.partition(OFFSETS_TOPIC, 3)
    assert list(log_of(sim).read(partition)) == [(b"k", b"v"), (b"gone", None)]


def test_appends_while_the_topic_is_made_keep_their_order() -> None:
    sim = Simulation()
    done = list[int]()
    for number in range(3):
        log_of(sim).append(0, [(b"%d" % number, b"")], lambda error, number=number: done.append(number))
    sim.jobs.step()  # the topic is there now, the queue is not drained yet
    assert sim.broker.topics.find(OFFSETS_TOPIC) is not None
    log_of(sim).append(0, [(b"3", b"")], lambda error: done.append(3))
    sim.settle()
    assert done == [0, 1, 2, 3]
    partition = sim.broker.topics.partition(OFFSETS_TOPIC, 0)
    assert [key for key, _ in log_of(sim).read(partition)] == [b"0", b"1", b"2", b"3"]


def test_the_number_of_partitions_is_that_of_the_topic_once_it_is_there() -> None:
    sim = Simulation({"offsets.topic.num.partitions": 5})
    log_of(sim).append(0, [(b"\x7f\xffa kind of key that nobody knows", b"v")], lambda error: None)
    sim.settle()
    sim.stop()
    assert (
        log_of(sim.restarted(lambda settings: settings.update({"offsets.topic.num.partitions": 9}))).partition_count
        == 5
    )


def test_a_record_is_no_larger_than_the_topic_allows() -> None:
    """As in Kafka, so what members say and are assigned in one generation is bounded too. What only
    deletes is not.
    """
    sim = Simulation({"message.max.bytes": 10_000})
    news = list[KqueueError | None]()
    log_of(sim).append(0, [(b"k", bytes(10_000))], news.append)
    log_of(sim).append(0, [(b"k%d" % number, None) for number in range(10_000)], news.append)
    sim.settle()
    assert isinstance(news[0], RecordTooLarge)
    assert "max.message.bytes of __consumer_offsets is 10000" in str(news[0])
    assert news[1] is None
    assert sim.broker.topics.partition(OFFSETS_TOPIC, 0).log_start_offset == 0
    promise = sim.broker.groups.commit(
        "g", -1, "", None, [OffsetToCommit("t", number, 1, -1, "x" * 100) for number in range(100)]
    )
    with pytest.raises(InvalidCommitOffsetSize):
        sim.result(promise)
    assert sim.broker.groups.limits.offset_bytes == 0


def test_a_log_that_is_offline_says_so() -> None:
    sim = Simulation()
    news = list[KqueueError | None]()
    log_of(sim).append(0, [(b"k", b"v")], news.append)
    sim.settle()
    sim.broker.topics.partition(OFFSETS_TOPIC, 0).log._fail(StorageFailed("the disk is gone"))
    log_of(sim).append(0, [(b"k", b"v")], news.append)
    assert news[0] is None
    assert isinstance(news[1], StorageFailed)


def test_replay_takes_transactions_at_their_commit_and_leaves_out_the_aborted_and_the_open() -> None:
    sim = Simulation()
    sim.result(sim.broker.topics.create_on_demand(OFFSETS_TOPIC))
    partition = sim.broker.topics.partition(OFFSETS_TOPIC, 0)

    def write(key: bytes, producer: int = -1, marker: int | None = None) -> None:
        records = [Record(0, 1, key, b"v")] if marker is None else [Record(0, 1, *control_key_value(marker, 0))]
        raw = build_batch(
            records,
            producer_id=producer,
            epoch=0 if producer >= 0 else -1,
            transactional=producer >= 0,
            control=marker is not None,
        )
        partition.append(memoryview(raw), read_header(raw), client=False)

    write(b"kept", producer=1)
    write(b"dropped", producer=2)
    write(b"plain")
    write(b"open", producer=3)
    write(b"", producer=2, marker=ABORT)
    write(b"", producer=1, marker=COMMIT)
    sim.settle()
    assert [key for key, _ in log_of(sim).read(partition)] == [b"plain", b"kept"]
