from __future__ import annotations

import pytest

import kqueue
from kqueue.spark.source.planning import Range
from kqueue.spark.source.reading import OFFSETS_FEW, read_ranges
from kqueue.tests.spark.source.logs import options, send


@pytest.mark.parametrize("headers", [False, True])
def test_the_columns_that_were_asked_for(broker: kqueue.Broker, headers: bool) -> None:
    broker.create_topic("t", 2)
    for partition in (0, 1):
        send(broker, "t", partition, 5)
    asked = options(broker, subscribe="t", includeHeaders=headers)
    found = list(read_ranges(asked, (Range("t", 0, 0, 5), Range("t", 1, 2, 4))))
    assert [batch.num_rows for batch in found] == [7], "partitions of a split share record batches"
    assert ("headers" in found[0].schema.names) is headers
    assert found[0].column("offset").to_pylist() == [0, 1, 2, 3, 4, 2, 3]
    assert list(read_ranges(asked, ())) == []


@pytest.mark.parametrize("engine", ["python", "fast", "auto"])
def test_engines_read_the_same(broker: kqueue.Broker, engine: str) -> None:
    broker.create_topic("t")
    for _ in range(3):
        send(broker, "t", 0, 8_000, codec="lz4")
    found = list(read_ranges(options(broker, subscribe="t", decoder=engine), (Range("t", 0, 10, 23_990),)))
    assert OFFSETS_FEW < sum(batch.num_rows for batch in found) == 23_980
    assert [offset for batch in found for offset in batch.column("offset").to_pylist()] == list(range(10, 23_990))
