"""Records of aborted and open transactions, counted from the headers of batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="summaries need NumPy")

import kqueue
from kqueue.client import LATEST, Client
from kqueue.client.topic_partition import TopicPartition
from kqueue.records.builder import BatchBuilder
from kqueue.spark.jobs.audit.gaps import BatchSpan, batch_spans, find_gaps, scan_start, stable_offsets
from kqueue.spark.source.options import SourceOptions
from kqueue.spark.source.reader_factory import open_reader
from kqueue.tests.spark.source.logs import BEGIN_MS, options, send
from kqueue.tests.waits import eventually

T0 = TopicPartition("t", 0)
TIMEOUT_MS = 60_000


class Transactions:
    """Writes to T0 in transactions: ``a3 A`` begins one of producer a with 3 records and aborts it;
    ``C`` commits, ``-2`` sends 2 records without one.
    """

    def __init__(self, client: Client, broker: kqueue.Broker) -> None:
        self._client = client
        self._broker = broker

    def write(self, steps: str) -> None:
        producers = {name: self._client.transactions.init(name, TIMEOUT_MS) for name in "ab" if name in steps}
        sequences = dict.fromkeys(producers, 0)
        last = ""
        for step in steps.split():
            if step in ("A", "C"):
                end = self._end()
                self._client.transactions.end(producers[last], committed=step == "C")
                eventually(lambda end=end: self._end() > end)
            elif step.startswith("-"):
                send(self._broker, "t", 0, int(step[1:]))
            else:
                last, count = step[0], int(step[1:] or 0)
                if not count:
                    continue
                self._client.transactions.add_partitions(producers[last], [T0])
                builder = BatchBuilder(
                    producer_id=producers[last].id,
                    epoch=producers[last].epoch,
                    base_sequence=sequences[last],
                    transactional=True,
                )
                for number in range(count):
                    builder.append(BEGIN_MS, None, b"%d" % number)
                self._client.produce({T0: bytes(builder.build())}, transactional_id=last)
                sequences[last] += count

    def _end(self) -> int | None:
        return self._client.offsets({T0: LATEST})[T0].offset


@pytest.fixture(params=["wire", "folder"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def counted(source_options: SourceOptions) -> tuple[int, int]:
    """Return the records of aborted and of open transactions, as the audit counts them."""
    with closing(open_reader(source_options)) as reader:
        end, start = reader.latest([T0])[T0], reader.earliest([T0])[T0]
        stable = stable_offsets(reader, {T0: end})[T0]
        markers = [
            span.first for span in batch_spans(reader, source_options, T0, start, end) if span.control is not None
        ]
        begin = scan_start(reader, T0, start, min(markers, default=stable), stable)
        report = find_gaps(batch_spans(reader, source_options, T0, begin, end), begin, end, [])
        assert report.markers == len(markers)
        assert report.between == 0
        return report.aborted, report.open


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[kqueue.Broker]:
    with kqueue.Broker(tmp_path / "data") as running:
        running.create_topic("t", 1)
        yield running


@pytest.mark.parametrize(
    ("steps", "aborted", "open"),
    [
        ("a5 A a7 C", 5, 0),
        ("-4 a5 A", 5, 0),
        ("a5 a6 A b3 A -1 a2 A", 16, 0),
        ("a5 b3 b C a A", 5, 0),  # begun before the first marker, which is another's
        ("a5 C -3", 0, 0),
        ("-3 a5", 0, 5),  # no marker, and so no gap
        ("a5 A b4", 5, 4),
        ("b4 a5 A", 5, 4),  # the marker is beyond the last stable offset
        ("a5 b4 a A", 5, 4),
        ("-3 a5 b4 -1 a A -2", 5, 4),
        ("-3 b4 a5 -1 A -2", 5, 4),
    ],
)
def test_records_of_transactions_before_the_first_marker_are_counted(
    broker: kqueue.Broker, tmp_path: Path, way: str, steps: str, aborted: int, open: int
) -> None:
    with Client(broker.bootstrap) as client:
        Transactions(client, broker).write(steps)
        given = {"subscribe": "t"} if way == "wire" else {"path": tmp_path / "data", "includeActiveSegment": "true"}
        report = counted(options(broker if way == "wire" else None, **given))
    assert report == (aborted, open)


@pytest.mark.parametrize(("steps", "begin"), [("-20 b4 -1 a5 A", 20), ("-20 a5 b4 a A", 20), ("-20 a5 A b4 a2 A", 20)])
def test_a_scan_of_a_broker_begins_with_the_first_transaction_that_counts(
    broker: kqueue.Broker, steps: str, begin: int
) -> None:
    with Client(broker.bootstrap) as client:
        Transactions(client, broker).write(steps)
    with closing(open_reader(options(broker, subscribe="t"))) as reader:
        end = reader.latest([T0])[T0]
        stable = stable_offsets(reader, {T0: end})[T0]
        spans = batch_spans(reader, options(broker, subscribe="t"), T0, 0, end)
        gap = min(span.first for span in spans if span.control is not None)
        assert scan_start(reader, T0, 0, gap, stable) == begin


def test_records_below_the_log_start_are_not_counted(broker: kqueue.Broker) -> None:
    with Client(broker.bootstrap) as client:
        Transactions(client, broker).write("a5 A -3")
        client.delete_records({T0: 2})
        assert counted(options(broker, subscribe="t")) == (3, 0)


def test_records_of_a_batch_that_is_cut_are_counted_in_part() -> None:
    spans = [BatchSpan(0, 9, 10, producer=1), BatchSpan(10, 10, 1, control=0, producer=1)]
    assert find_gaps(spans, 4, 11, [(10, 11)]).aborted == 6
