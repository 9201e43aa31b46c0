from __future__ import annotations

from contextlib import closing
from pathlib import Path

import kqueue
from kqueue.client import Client, TopicPartition
from kqueue.records.builder import BatchBuilder
from kqueue.spark.source.first_record import first_time
from kqueue.spark.source.reader_factory import open_reader
from kqueue.tests.spark.source.logs import BEGIN_MS, options, send

T0 = TopicPartition("t", 0)


def test_time_of_the_first_record_is_the_same_over_both_readers(tmp_path: Path) -> None:
    """Over the wire, and in the folder after a clean stop."""
    timeless = BatchBuilder("none")
    timeless.append(-1, None, b"x", [])
    with kqueue.Broker(tmp_path) as broker:
        broker.create_topic("t", 1)
        send(broker, "t", 0, 10, codec="gzip")
        with Client(broker.bootstrap) as client:
            client.produce({T0: bytes(timeless.build())})
        with closing(open_reader(options(broker, subscribe="t"))) as wire:
            times = [first_time(wire, T0, start, 11) for start in (0, 7, 10, 11, 50)]
    with closing(open_reader(options(path=tmp_path))) as folder:
        assert [first_time(folder, T0, start, 11) for start in (0, 7, 10, 11, 50)] == times
        assert first_time(folder, TopicPartition("gone", 0), 0, 11) is None
    assert times == [BEGIN_MS, BEGIN_MS + 7, None, None, None]
