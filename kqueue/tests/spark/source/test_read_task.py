from __future__ import annotations

import threading
from collections.abc import Generator

import pytest

import kqueue
from kqueue.spark.errors import DataLost
from kqueue.spark.source.read_task import OFFSETS_FEW, prefetch_one, read_ranges
from kqueue.spark.source.split_planner import OffsetRange
from kqueue.tests.spark.source.logs import options, send


@pytest.mark.parametrize("headers", [False, True])
def test_batches_have_the_requested_columns(broker: kqueue.Broker, headers: bool) -> None:
    broker.create_topic("t", 2)
    for partition in (0, 1):
        send(broker, "t", partition, 5)
    source_options = options(broker, subscribe="t", includeHeaders=headers)
    batches = list(read_ranges(source_options, (OffsetRange("t", 0, 0, 5), OffsetRange("t", 1, 2, 4))))
    assert [batch.num_rows for batch in batches] == [7], "partitions of a split share record batches"
    assert ("headers" in batches[0].schema.names) is headers
    assert batches[0].column("offset").to_pylist() == [0, 1, 2, 3, 4, 2, 3]
    assert list(read_ranges(source_options, ())) == []


@pytest.mark.parametrize("engine", ["python", "fast", "auto"])
def test_every_engine_reads_all_records_of_a_range(broker: kqueue.Broker, engine: str) -> None:
    broker.create_topic("t")
    for _ in range(3):
        send(broker, "t", 0, 8_000, codec="lz4")
    batches = list(read_ranges(options(broker, subscribe="t", decoder=engine), (OffsetRange("t", 0, 10, 23_990),)))
    assert OFFSETS_FEW < sum(batch.num_rows for batch in batches) == 23_980
    assert [offset for batch in batches for offset in batch.column("offset").to_pylist()] == list(range(10, 23_990))


# --- one ahead


def test_the_next_is_made_while_the_last_is_being_taken() -> None:
    started = [threading.Event() for _ in range(4)]

    def produce() -> Generator[int, None, None]:
        for number, event in enumerate(started):
            event.set()
            yield number

    for number in prefetch_one(produce()):
        assert number == len(started) - 1 or started[number + 1].wait(60), "nobody asked for it yet"


def test_error_is_raised_after_the_items_before_it() -> None:
    def produce() -> Generator[int, None, None]:
        yield 1
        raise DataLost("on purpose")

    prefetched = prefetch_one(produce())
    assert next(prefetched) == 1
    with pytest.raises(DataLost, match="on purpose"):
        next(prefetched)


def test_reader_that_stops_early_closes_the_producer(broker: kqueue.Broker) -> None:
    closed: list[int] = []

    def produce() -> Generator[int, None, None]:
        try:
            yield from range(1, 1_000)
        finally:
            closed.append(1)

    prefetched = prefetch_one(produce())
    assert next(prefetched) == 1
    prefetched.close()
    assert closed == [1]
    broker.create_topic("t")
    for _ in range(30):
        send(broker, "t", 0, 1_000)
    reading = read_ranges(options(broker, subscribe="t", decoder="python"), (OffsetRange("t", 0, 0, 30_000),))
    assert next(reading).num_rows
    reading.close()  # type: ignore[attr-defined]
    assert not [
        thread.name for thread in threading.enumerate() if thread.name.startswith(("kqueue-decode", "kqueue-fetch"))
    ]
