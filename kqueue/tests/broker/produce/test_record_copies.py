"""The copies that a request makes of its records, and the bound on those of all requests."""

from __future__ import annotations

import pytest

from kqueue.broker.produce import record_copies
from kqueue.broker.produce.partition_append import PartitionAppend
from kqueue.broker.produce.record_copies import RecordCopies


def appends_of(frame: bytearray) -> list[PartitionAppend]:
    """Three appends: two halves of the frame, and one without records."""
    view, half = memoryview(frame), len(frame) // 2
    return [PartitionAppend(0, view[:half]), PartitionAppend(1, None), PartitionAppend(2, view[half:])]


def contents(appends: list[PartitionAppend]) -> list[bytes | None]:
    return [None if append.records is None else bytes(append.records) for append in appends]


def test_held_records_outlive_the_frame_and_can_be_written() -> None:
    frame = bytearray(b"abcdef")
    appends = appends_of(frame)
    assert RecordCopies().hold(appends) == 6
    frame[:] = bytes(len(frame))
    assert contents(appends) == [b"abc", None, b"def"]
    assert appends[0].records is not None
    appends[0].records[0:1] = b"A"  # an append writes offsets into the header
    assert contents(appends) == [b"Abc", None, b"def"]


def test_copies_above_the_limit_of_all_requests_are_refused_until_others_are_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_copies, "COPIED_BYTES_MAX", 10)
    copies = RecordCopies()
    first = copies.hold(appends_of(bytearray(6)))
    assert first == 6
    appends = appends_of(bytearray(b"abcdef"))
    views = [append.records for append in appends]
    assert copies.hold(appends) is None
    assert [append.records is view for append, view in zip(appends, views, strict=True)] == [True, True, True]
    assert copies.bytes == 6
    assert copies.hold(appends_of(bytearray(4))) == 4, "exactly the limit"
    copies.release(first)
    assert copies.bytes == 4
    assert copies.hold(appends) == 6
    assert copies.bytes == 10


def test_appends_without_records_hold_nothing() -> None:
    copies = RecordCopies()
    assert copies.hold([PartitionAppend(0, None)]) == 0
    assert copies.bytes == 0
