from __future__ import annotations

from contextlib import closing
from pathlib import Path

import kqueue
from kqueue.client import Client, TopicPartition
from kqueue.records.builder import BatchBuilder
from kqueue.spark.source.first_record import first_time
from kqueue.spark.source.reader_factory import open_reader
from kqueue.tests.spark.source.logs import BEGIN_MS, options, send
from kqueue.tests.spark.source.tiers import copy_partition, make_tier

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


def test_time_of_the_first_record_comes_from_the_tier_or_from_brokers_beside_it(tmp_path: Path) -> None:
    store = make_tier(tmp_path / "tier")
    (tmp_path / "scratch").mkdir()
    with kqueue.Broker(tmp_path / "data") as broker:
        broker.create_topic("t", 1, segment_bytes=1024)
        for number in range(12):
            send(broker, "t", 0, 5, time_ms=BEGIN_MS + 5 * number)
        border = copy_partition(store, tmp_path / "data", tmp_path / "scratch", "t").end_offset
        assert 10 < border < 58
        with closing(open_reader(options(broker, path=tmp_path / "tier", subscribe="t"))) as both:
            for offset in (0, 7, border - 1, border, 58):
                assert first_time(both, T0, offset, 60) == BEGIN_MS + offset
    with closing(open_reader(options(path=tmp_path / "tier"))) as tier:
        assert first_time(tier, T0, 7, 60) == BEGIN_MS + 7
        assert first_time(tier, T0, border, 60) is None
        assert first_time(tier, TopicPartition("gone", 0), 0, 60) is None
