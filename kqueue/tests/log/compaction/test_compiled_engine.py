"""S5.2: the map and the calls around the kernels; that they say what the plain loops say is shown
in test_kernels.
"""

from __future__ import annotations

import tracemalloc
from array import array
from typing import Any

import pytest

from kqueue.base.errors import CorruptBatch
from kqueue.log.compaction.engine import select_engine
from kqueue.log.compaction.offset_map import SLOT_BYTES, OffsetMap
from kqueue.log.compaction.python_engine import NOTHING
from kqueue.records.batch import BATCH_OVERHEAD, BatchHeader, iter_records, read_header
from kqueue.records.builder import BatchBuilder

pytest.importorskip("numpy", reason="kqueue[fast] is not installed")
pytest.importorskip("numba", reason="kqueue[fast] is not installed")
from kqueue.log.compaction import compiled_engine
from kqueue.tests.tables import for_each

pytestmark = pytest.mark.timeout(300)  # the first run compiles

Pair = tuple[bytes | None, bytes | None]


def a_batch(*pairs: Pair, base_offset: int = 0, **settings: Any) -> bytes:
    builder = BatchBuilder(base_offset=base_offset, **settings)
    for number, (key, value) in enumerate(pairs):
        builder.append(1000 + number, key, value)
    return bytes(builder.build())


def parts(batch: bytes) -> tuple[bytes, BatchHeader]:
    return batch[BATCH_OVERHEAD:], read_header(batch)


def a_map(slots: int = 1000, **settings: Any) -> compiled_engine.CompiledOffsetMap:
    return compiled_engine.CompiledOffsetMap(slots * SLOT_BYTES, **settings)


def filled(*batches: bytes) -> compiled_engine.CompiledOffsetMap:
    offset_map = a_map()
    for batch in batches:
        offset_map.end_offset = compiled_engine.index_records(offset_map, *parts(batch), 0)
    return offset_map


def test_fast_and_auto_select_the_compiled_engine() -> None:
    assert select_engine("fast") is compiled_engine.ENGINE
    assert select_engine("auto") is compiled_engine.ENGINE
    assert isinstance(compiled_engine.ENGINE.make_map(1 << 16, 0.9), compiled_engine.CompiledOffsetMap)


@for_each("slots", [0, 3, 4, 100, 1000])
@for_each("load_factor", [0.1, 0.9, 1.0])
@for_each("records_max", [None, 0, 40])
def test_both_maps_are_full_at_the_same_key(slots: int, load_factor: float, records_max: int | None) -> None:
    """Else what is clean after a compaction would depend on the engine."""
    plain = OffsetMap(slots * SLOT_BYTES, load_factor, records_max=records_max)
    compiled = a_map(slots, load_factor=load_factor, records_max=records_max)
    assert compiled.capacity == plain.capacity
    keys = [None, *(b"%d" % number for number in range(plain.capacity + 1)), b"0"]
    assert compiled.put_all(keys, range(len(keys)), 7) == plain.put_all(keys, range(len(keys)), 7) == plain.capacity + 1
    assert compiled.get_all(keys) == plain.get_all(keys)
    assert (compiled.count, compiled.records) == (plain.capacity, plain.records)


def test_a_window_begins_at_its_base_offset() -> None:
    offset_map = filled(a_batch((b"a", b""), (b"b", b""), (b"a", b"")))
    marks, start = offset_map.window_at(1)
    assert (bytes(marks), start) == (b"\1\1", 1)
    offset_map.put(b"b", 3)
    offset_map.end_offset = 4
    marks, start = offset_map.window_at(3)
    assert (bytes(marks[3 - start :]), start <= 3) == (b"\1", True)
    assert len(offset_map.window_at(4)[0]) == 0, "nothing is known beyond the end"


def test_the_output_buffer_is_reused() -> None:
    offset_map = a_map()
    first = offset_map.output_buffer(100)
    first[7] = 9
    again = offset_map.output_buffer(40)
    assert (len(first), len(again), again[7]) == (100, 40, 9)
    assert len(offset_map.output_buffer(200)) == 200


@for_each("base_offset", [-1, 2**62 + 1])
def test_offsets_that_slots_cannot_hold_are_refused(base_offset: int) -> None:
    data, header = parts(a_batch((b"a", b"")))
    offset_map = a_map()
    with pytest.raises(CorruptBatch, match=r"expected a base offset from 0 to 2\*\*62"):
        compiled_engine.index_records(offset_map, data, header._replace(base_offset=base_offset), 0)
    assert offset_map.count == 0


def test_a_count_that_the_bytes_cannot_hold_costs_no_memory() -> None:
    data, header = parts(a_batch((b"a", b"")))
    header = header._replace(record_count=2**27, last_offset_delta=2**27 - 1)
    offset_map = a_map(start_offset=2**40)  # so that keys have to be asked for
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch, match="are not 134217728 whole records"):
            compiled_engine.kept(offset_map, data, header, 0, True)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_batches_that_lose_no_record_are_returned_unchanged() -> None:
    batch = a_batch((b"a", b"1"), (b"b", None))
    data, header = parts(batch)
    retained = compiled_engine.kept(filled(batch), data, header, 0, True)
    assert retained == (2, data, 1001, True)
    assert retained.data is data
    assert compiled_engine.kept(filled(batch), data, header, 0, False)[::3] == (1, False)
    assert (
        compiled_engine.kept(filled(batch, a_batch((b"a", b""), (b"b", b""), base_offset=2)), data, header, 0, True)
        == NOTHING
    )


def test_a_chunk_ends_before_an_unusual_batch() -> None:
    """A batch that is damaged, compressed, or ends behind the limit is left to the caller."""
    first, second = a_batch((b"a", b"1")), a_batch((b"b", b"2"), base_offset=1)
    damaged = bytearray(a_batch((b"c", b"3"), base_offset=2))
    damaged[-1] ^= 1
    packed = a_batch((b"c", b"3" * 500), base_offset=2, codec="gzip")
    junk = b"\xff" * 10
    for after in (bytes(damaged), packed, junk, first):
        buf = junk + first + second + after
        offset_map = a_map()
        assert compiled_engine.index_chunk(offset_map, buf, 10, len(buf), 0, 0) == (len(first + second), 2)
        assert offset_map.get_all([b"a", b"b", b"c"]) == [0, 1, -1]
    buf = junk + first + second
    assert compiled_engine.index_chunk(a_map(), buf, 10, len(buf) - 1, 0, 0) == (len(first), 1)
    assert compiled_engine.index_chunk(a_map(), buf, 10, len(buf), 1, 0) == (0, 1), "offsets begin at the next or later"


def test_retained_records_of_a_chunk() -> None:
    batches = [
        a_batch((b"a", b"1"), (b"b", b"2")),
        a_batch((b"a", b"3"), base_offset=2),
        a_batch((b"b", b"4"), base_offset=3),
    ]
    last = a_batch((b"c", b"5"), (b"b", b"6"), base_offset=4)
    buf = b"".join([*batches, last])
    retained = compiled_engine.keep_chunk(filled(*batches, last), buf, 0, len(buf), 0, 0, array("q"))
    assert (retained.size, retained.next_offset, retained.read, retained.kept, retained.is_same) == (
        len(buf),
        6,
        6,
        3,
        False,
    )
    end = retained.batches[-1][0]
    assert bytes(retained.data[:end]) == batches[1] + last
    assert [tuple(row) for row in retained.batches] == [(len(batches[1]), 2, 1000), (end, 5, 1001)]
    assert [record.value for record in iter_records(bytes(retained.data[len(batches[1]) : end]))] == [b"5", b"6"]
    same = compiled_engine.keep_chunk(filled(last), last, 0, len(last), 4, 0, array("q"))
    assert (same.is_same, bytes(same.data[: len(last)])) == (True, last)


@for_each("last_offsets, size", [([], 2), ([0, 7], 2), ([1], 1)])
def test_the_last_batch_of_a_producer_is_left_to_the_caller(last_offsets: list[int], size: int) -> None:
    """It must stay, without records, where it would go."""
    batches = [
        a_batch((b"k", b"%d" % number), base_offset=number, producer_id=number - 1, epoch=0, base_sequence=0)
        for number in range(3)
    ]
    buf = b"".join(batches)
    retained = compiled_engine.keep_chunk(
        filled(*batches), buf, 0, sum(map(len, batches[:2])), 0, 0, array("q", last_offsets)
    )
    assert (retained.next_offset, retained.read, retained.kept) == (size, size, 0)
