from __future__ import annotations

import random

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.log.recovery import quarantine
from kqueue.log.segment import Segment
from kqueue.storage import MemoryStorage
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.tests.log.helpers import START_MS, batch
from kqueue.tests.tables import for_each

NAME = "00000000000000000000.log"


def segment_of(storage: MemoryStorage | FaultyStorage, *parts: bytes) -> Segment:
    storage.make_folder("t-0")
    segment = Segment.open(storage, "t-0", 0, START_MS, create=True)
    segment.log.append(b"".join(parts))
    segment.size = segment.log.size
    for folder in ("", "t-0"):
        storage.sync_folder(folder)
    segment.log.sync()
    return segment


def names(storage: MemoryStorage | FaultyStorage) -> list[str]:
    return [entry.name for entry in storage.list("t-0") if not entry.name.endswith("index")]


def test_an_end_without_a_whole_batch_is_cut_off() -> None:
    """S5.3"""
    storage = MemoryStorage()
    segment = segment_of(storage, bytes(batch(b"a")), b"torn")
    quarantine.cut_log(storage, "t-0", segment, segment.size - 4, 1, "torn")
    assert (names(storage), segment.log.size) == ([NAME], segment.size - 4)


def test_an_end_with_whole_batches_is_quarantined_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "COPY_BYTES", 10)
    storage = MemoryStorage()
    rest = b"torn" + bytes(batch(b"b", base_offset=5))
    segment = segment_of(storage, bytes(batch(b"a")), rest)
    at = segment.size - len(rest)
    for number in range(3):
        quarantine.cut_log(storage, "t-0", segment, at, 1, "torn")
        assert segment.log.size == at
        suffix = f".{number + 1}" if number else ""
        assert storage.read(f"t-0/{NAME}{suffix}.damaged") == rest
        segment.log.append(rest)


def test_a_segment_is_quarantined_without_its_indexes() -> None:
    storage = MemoryStorage()
    data = bytes(batch(b"a"))
    quarantine.quarantine_segment(storage, "t-0", segment_of(storage, data), "a hole")
    assert [entry.name for entry in storage.list("t-0")] == [f"{NAME}.damaged"]
    assert storage.read(f"t-0/{NAME}.damaged") == data
    quarantine.quarantine_segment(storage, "t-0", segment_of(storage), "nothing in it")
    assert [entry.name for entry in storage.list("t-0")] == [f"{NAME}.damaged"]


def test_without_a_copy_nothing_is_cut() -> None:
    storage = FaultyStorage()
    segment = segment_of(storage, b"torn", bytes(batch(b"b", base_offset=5)))
    storage.fail("append")
    with pytest.raises(StorageFailed):
        quarantine.cut_log(storage, "t-0", segment, 0, 0, "torn")
    assert segment.log.size == segment.size


@for_each("remains", Remains)
def test_a_power_cut_never_costs_quarantined_batches(remains: Remains) -> None:
    rest = b"torn" + bytes(batch(b"b", base_offset=5))
    for cut_at in range(1, 40):
        storage = FaultyStorage()
        segment = segment_of(storage, rest)
        storage.cut_at = len(storage.steps) + cut_at
        try:
            quarantine.cut_log(storage, "t-0", segment, 0, 0, "torn")
            break
        except PowerCut:
            left = storage.after_cut(remains, random.Random(cut_at))
            kept = f"t-0/{NAME}.damaged"
            assert left.read(f"t-0/{NAME}") == rest or left.read(kept) == rest
    else:
        raise AssertionError("it never ends")
