from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kqueue.base.errors import InvalidRecord, KqueueError, RequestTimedOut, UnknownTopicOrPartition
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork, run_to_end
from kqueue.broker.produce.append_path import RECORDS_AT_ONCE_MAX
from kqueue.broker.replicas import append_queue
from kqueue.broker.replicas.append_queue import SLICE_MS, AppendQueue
from kqueue.broker.topics.topics import Topic
from kqueue.log.results import AppendResult
from kqueue.records.batch import Record, iter_batches, iter_records
from kqueue.records.builder import BatchBuilder
from kqueue.records.message_set import encode_set
from kqueue.testing.simulation import Simulation

NOW_MS = 1_700_000_000_000
LONG = RECORDS_AT_ONCE_MAX + 1


@pytest.fixture
def sim() -> Simulation:
    return Simulation({"kqueue.storage": "memory"})


def counting(sim: Simulation, done: list[int], count: int, ms_each: float = 1) -> SlicedWork[str]:
    for number in range(count):
        done.append(number)
        sim.clock.advance(ms_each)
        yield None
    return "done"


def start(sim: Simulation, steps: SlicedWork[str]) -> Promise[str]:
    promise: Promise[str] = Promise()
    sim.broker.replicas.host.append_scheduler.start(steps, promise, lambda: None)
    return promise


def test_work_items_alternate_by_slice(sim: Simulation) -> None:
    first, second = list[int](), list[int]()
    promises = [start(sim, counting(sim, done, 3 * SLICE_MS)) for done in (first, second)]
    for slices in ((1, 0), (1, 1), (2, 1), (2, 2)):
        sim.broker.scheduler.purgatory.run_ready()
        assert (len(first), len(second)) == tuple(SLICE_MS * count for count in slices)
    sim.settle()
    assert [promise.result() for promise in promises] == ["done", "done"]
    assert not sim.broker.scheduler.purgatory.ready


def test_a_yielded_callable_runs_as_a_job_and_its_outcome_is_sent_back(sim: Simulation) -> None:
    def failing() -> None:
        raise InvalidRecord("no")

    def work() -> SlicedWork[str]:
        outcomes = [(yield partial(int, "42"))]
        try:
            yield failing
        except InvalidRecord as error:
            outcomes.append(str(error))
        return repr(outcomes)

    promise = start(sim, work())
    sim.broker.scheduler.purgatory.run_ready()
    assert [job.name for job in sim.jobs.pending] == ["records of a batch"]
    sim.settle()
    assert promise.result() == run_to_end(work()) == "[42, 'no']"


def test_computations_beyond_the_limit_wait_their_turn(sim: Simulation) -> None:
    scheduler = append_queue.AppendScheduler(sim.broker.scheduler.purgatory, sim.jobs, sim.clock, computations_max=2)
    ended: list[int] = []

    def work(number: int) -> SlicedWork[None]:
        yield partial(int, "1")
        ended.append(number)

    for number in range(5):
        scheduler.start(work(number), Promise(), lambda: None)
    while sim.broker.scheduler.purgatory.run_ready():
        pass
    while sim.jobs.pending:
        assert len(sim.jobs.pending) == min(2, 5 - len(ended))
        sim.jobs.step()
    assert ended == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("error", "words"), [(InvalidRecord("bad"), "bad"), (ZeroDivisionError("oh"), "ZeroDivisionError")]
)
def test_failed_work_fails_its_promise_and_the_next_work_runs(sim: Simulation, error: Exception, words: str) -> None:
    def work() -> SlicedWork[str]:
        yield None
        raise error

    emptied = list[int]()
    queue = AppendQueue(sim.broker.replicas.host.append_scheduler, lambda: emptied.append(1))
    promises = [queue.add(work()), queue.add(counting(sim, [], 2))]
    sim.settle()
    with pytest.raises(KqueueError, match=words):
        promises[0].result()
    assert promises[1].result() == "done"
    assert emptied == [1]


# --- appends


def batch(count: int, **settings: Any) -> memoryview:
    builder = BatchBuilder(**settings)
    for number in range(count):
        builder.append(NOW_MS, b"k%d" % number, b"v")
    return memoryview(builder.build())


def append(topic: Topic, records: memoryview, version: int = 9) -> AppendResult | Promise[AppendResult]:
    return topic.appender.append(topic.partition(0), records, now_ms=NOW_MS, produce_version=version)


def stored(topic: Topic) -> list[Record]:
    partition = topic.partition(0)
    records: list[Record] = []
    while data := (fetched := partition.read_now(records[-1].offset + 1 if records else 0, 1 << 20)).read():
        records += [record for position, _ in iter_batches(data) for record in iter_records(data, position)]
        assert fetched.next_offset == records[-1].offset + 1
    return records


@pytest.mark.parametrize(
    "make",
    [
        partial(batch, LONG),
        partial(batch, LONG, codec="zstd"),
        partial(batch, 2, codec="zstd"),
        lambda: memoryview(encode_set([Record(0, NOW_MS, b"k", b"v" * 70_000)], 1)),
        lambda: memoryview(encode_set([Record(number, NOW_MS, b"k", b"v") for number in range(3000)], 0, 1)),
    ],
    ids=["records", "compressed", "small", "old", "old wrapper"],
)
@pytest.mark.parametrize(
    "settings", [{"cleanup_policy": "compact"}, {"compression_type": "gzip"}], ids=["compacted", "recompressed"]
)
def test_a_long_batch_is_appended_later_as_a_short_one_is_at_once(
    sim: Simulation, make: Callable[[], memoryview], settings: dict[str, str]
) -> None:
    version = 2 if make()[16] < 2 else 9
    topic, same = sim.topic("t", **settings), sim.topic("same", **settings)
    appended = append(topic, make(), version)
    sim.settle()
    now = same.appender.append_now(same.partition(0), make(), now_ms=NOW_MS, produce_version=version)
    assert (appended.result() if isinstance(appended, Promise) else appended) == now
    assert stored(topic) == stored(same)
    assert isinstance(appended, Promise) or len(make()) < 60_000


def test_later_batches_wait_behind_a_long_batch(sim: Simulation) -> None:
    topic, other = sim.topic("t", cleanup_policy="compact"), sim.topic("other", cleanup_policy="compact")
    producer = {"producer_id": 5, "epoch": 0}
    long = batch(LONG, base_sequence=0, **producer)
    copy = bytes(long)
    promises = [
        append(topic, long),
        append(topic, batch(1, base_sequence=LONG, **producer)),
        append(topic, memoryview(bytearray(copy))),
    ]
    long[:] = bytes(len(long))  # the buffer is another request's by then
    assert isinstance(append(other, batch(1)), AppendResult), "other partitions do not wait"
    sim.settle()
    results = [promise.result() for promise in promises if isinstance(promise, Promise)]
    assert [(result.base_offset, result.duplicate) for result in results] == [(0, False), (LONG, False), (0, True)]
    assert topic.partition(0).appends is None
    assert isinstance(append(topic, batch(1)), AppendResult)
    assert [record.offset for record in stored(topic)] == list(range(LONG + 2))


def test_a_deferred_refused_batch_does_not_block_the_queue(sim: Simulation) -> None:
    topic = sim.topic("t", cleanup_policy="compact")
    builder = BatchBuilder()
    for number in range(LONG):
        builder.append(NOW_MS, b"k" if number < LONG - 1 else None, b"v")
    refused, after = append(topic, memoryview(builder.build())), append(topic, batch(1))
    assert isinstance(refused, Promise)
    assert isinstance(after, Promise)
    sim.settle()
    with pytest.raises(InvalidRecord) as caught:
        refused.result()
    assert [record_error.batch_index for record_error in caught.value.record_errors] == [LONG - 1]
    assert after.result().base_offset == 0


def test_bytes_queued_for_validation_are_bounded(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(batch(LONG))
    monkeypatch.setattr(append_queue, "HELD_BYTES_MAX", 2 * size)
    topic, other = sim.topic("t", cleanup_policy="compact"), sim.topic("other", cleanup_policy="compact")
    assert isinstance(append(topic, batch(LONG)), Promise)
    assert isinstance(append(other, batch(LONG)), Promise)
    for one in (topic, other):
        with pytest.raises(RequestTimedOut, match=f"{2 * size} bytes of records wait"):
            append(one, batch(1))
    sim.settle()
    assert sim.broker.replicas.host.append_scheduler.held_bytes == 0
    assert isinstance(append(topic, batch(LONG)), Promise)
    assert isinstance(append(topic, batch(1)), Promise)
    sim.settle()
    assert topic.partition(0).log_end_offset == 2 * LONG + 1


def test_a_partition_that_is_deleted_meanwhile(sim: Simulation) -> None:
    topic = sim.topic("t", cleanup_policy="compact")
    promises = [append(topic, batch(LONG)), append(topic, batch(1))]
    topic.partition(0).mark_deleted()
    sim.settle()
    for promise in promises:
        assert isinstance(promise, Promise)
        with pytest.raises(UnknownTopicOrPartition):
            promise.result()
