from __future__ import annotations

import pickle
from pathlib import Path

from kqueue.log.sealed_segments import SealedSegments
from kqueue.records.batch import Record
from kqueue.testing import sealed_segments
from kqueue.tests.tables import for_each

RECORDS = [[Record(0, 1000, b"a", b"1"), Record(1, 1001, None, b"2")], [Record(0, 1002, b"b", None, (("h", b"x"),))]]


def content(segments: SealedSegments) -> list[tuple[object, ...]]:
    return [
        (record.offset, record.timestamp, record.key, record.value, record.headers) for record in segments.records()
    ]


@for_each("codec", ["none", "zstd"])
def test_segments_have_exactly_the_given_records(codec: str) -> None:
    segments = sealed_segments(RECORDS, topic="t", partition=3, codec=codec, aborted=[Record(0, 1003, b"c", b"4")])
    assert content(segments) == [
        (0, 1000, b"a", b"1", ()),
        (1, 1001, None, b"2", ()),
        (2, 1002, b"b", None, (("h", b"x"),)),
    ]
    assert (segments.topic, segments.partition, segments.folder) == ("t", 3, "t-3")
    assert [(view.base_offset, view.end_offset, view.is_active) for view in segments.segments] == [
        (0, 2, False),
        (2, 5, False),
    ]
    flags = [(batch.base_offset, batch.is_aborted, batch.is_control) for batch in segments.batches()]
    assert flags == [(0, False, False), (2, False, False), (3, True, False), (4, False, True)]


def test_segments_in_a_folder_can_be_pickled(tmp_path: Path) -> None:
    segments = sealed_segments(RECORDS, folder=tmp_path)
    assert (tmp_path / "orders-0" / "partition.metadata").exists()
    assert content(pickle.loads(pickle.dumps(segments))) == content(segments) != []
