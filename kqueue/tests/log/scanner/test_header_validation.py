"""S3.3: every byte of a log file is in a valid batch or in a corrupt range, and batches behind
damage are scanned again.
"""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kqueue.log.formats.leader_epochs import LeaderEpochCache
from kqueue.log.scanner.batch_scanner import CorruptRange, HeaderFix, ScannedBatch
from kqueue.log.scanner.header_validation import validated_batches
from kqueue.records.batch import BatchHeader, stamp
from kqueue.records.message_set import encode_entry, encode_set
from kqueue.records.record import Record
from kqueue.storage import File, MemoryStorage
from kqueue.tests.log.helpers import batch
from kqueue.tests.tables import for_each


def file_of(data: bytes) -> File:
    storage = MemoryStorage()
    storage.write_atomic("log", data)
    return storage.open("log")


def log_of(*counts: int, base: int = 0, epochs: tuple[int, ...] = ()) -> tuple[bytearray, list[int]]:
    """Batches of so many records, one after another; and where they begin."""
    data, positions, offset = bytearray(), [], base
    for number, count in enumerate(counts):
        one = batch(*(b"value %d" % index for index in range(count)))
        stamp(one, 0, offset, epochs[number] if epochs else 0)
        positions.append(len(data))
        data += one
        offset += count
    return data, positions


def scanned(data: bytes | bytearray, base: int = 0, **bounds: int) -> list[ScannedBatch | CorruptRange]:
    return list(validated_batches(file_of(bytes(data)), len(data), base, **bounds))  # type: ignore[arg-type]


def corrupt_ranges(items: list[ScannedBatch | CorruptRange]) -> list[CorruptRange]:
    return [one for one in items if isinstance(one, CorruptRange)]


def test_valid_batches() -> None:
    data, positions = log_of(3, 1, 5, base=10)
    items = scanned(data, 10, limit=19)
    assert [one.position for one in items] == positions
    assert [one.record_count for one in items if isinstance(one, ScannedBatch)] == [3, 1, 5]
    assert scanned(b"") == []


@settings(deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.data())
def test_each_byte_is_in_exactly_one(counts: list[int], draw: st.DataObject) -> None:
    data, positions = log_of(*counts)
    for _ in range(draw.draw(st.integers(0, 3))):
        start = draw.draw(st.integers(0, len(data) - 1))
        new = draw.draw(st.binary(min_size=1, max_size=20))
        data[start : start + len(new)] = new
    del data[draw.draw(st.integers(0, len(data))) :]
    end, last = 0, -1
    for one in scanned(data):
        assert one.position == end
        end = one.position + one.header.size if isinstance(one, ScannedBatch) else one.end
        assert end > one.position
        if isinstance(one, ScannedBatch):
            assert one.position in positions
            assert isinstance(one.header, BatchHeader)
            assert one.header.base_offset > last
            last = one.header.last_offset
    assert end == len(data)


@settings(deadline=None)
@given(st.integers(0, 3), st.integers(0, 10_000), st.integers(1, 255))
@example(0, 11, 249)  # a length that leads to where a later batch begins
def test_changed_byte_costs_at_most_one_batch(number: int, where: int, mask: int) -> None:
    data, positions = log_of(2, 3, 1, 2)
    ends = [*positions[1:], len(data)]
    data[positions[number] + where % (ends[number] - positions[number])] ^= mask
    items = scanned(data, limit=8)
    assert {one.position for one in items if isinstance(one, ScannedBatch)} >= set(positions) - {positions[number]}
    assert [one.position for one in corrupt_ranges(items)] in ([], [positions[number]])


@for_each("number, offset", [(0, 1), (1, 7), (1, 0), (2, 3), (2, 99), (3, 2), (3, 7)])
def test_a_base_offset_with_one_possible_value_is_fixed(number: int, offset: int) -> None:
    data, positions = log_of(2, 3, 1, 2)
    right = [0, 2, 5, 6][number]
    data[positions[number] : positions[number] + 8] = offset.to_bytes(8, "big")
    (one,) = corrupt_ranges(scanned(data, limit=8))
    assert (one.position, one.fix) == (positions[number], HeaderFix(right, 0))


def test_an_ambiguous_base_offset_is_not_fixed() -> None:
    data, positions = log_of(2, 3, 1, 2)
    del data[positions[1] : positions[2]]  # a gap, as compaction leaves it
    data[0:8] = (6).to_bytes(8, "big")
    (one,) = corrupt_ranges(scanned(data, limit=8))
    assert (one.position, one.fix) == (0, None)


EPOCHS = [
    ((0, 7, 1), {1: 0}),
    ((0, 0, 5), {}),
    ((3, 3, 1), {2: 3}),
    ((9, 1, 1), {0: 1}),
    ((0, -1, 0), {}),
    ((2, -5, 2), {1: 2}),
    ((-5, 0, 0), {0: 0}),
]


@for_each("epochs, wrong", EPOCHS)
def test_leader_epochs_never_fall(epochs: tuple[int, ...], wrong: dict[int, int]) -> None:
    data, positions = log_of(1, 1, 1, epochs=epochs)
    fixes = {positions.index(one.position): one.fix for one in corrupt_ranges(scanned(data))}
    assert fixes == {number: HeaderFix(number, right) for number, right in wrong.items()}


def test_the_checkpoint_decides_which_of_two_leader_epochs_is_wrong() -> None:
    data, positions = log_of(1, 1, 1, epochs=(3, 1, 3))
    said = LeaderEpochCache()
    said.assign(3, 0)
    (one,) = corrupt_ranges(list(validated_batches(file_of(bytes(data)), len(data), 0, epochs=said)))
    assert (one.position, one.fix) == (positions[1], HeaderFix(1, 3))
    said.assign(4, 1)
    data, _ = log_of(1, 1, 1, epochs=(3, 9, 5))
    (one,) = corrupt_ranges(list(validated_batches(file_of(bytes(data)), len(data), 0, epochs=said)))
    assert one.fix == HeaderFix(1, 4)


def test_old_formats() -> None:
    records = [Record(offset, 1000 + offset, b"k", b"v" * 50) for offset in range(4)]
    wrapper = encode_set(records, 1, 1)
    plain = b"".join(encode_entry(0, offset, -1, None, b"x") for offset in range(4, 7))
    items = scanned(wrapper + plain, deep=True)
    assert [one.record_count for one in items if isinstance(one, ScannedBatch)] == [4, 1, 1, 1]
    data = bytearray(wrapper + plain)
    data[len(wrapper) + 20] ^= 1
    assert [one.position for one in corrupt_ranges(scanned(data))] == [len(wrapper)]


def test_offsets_of_a_segment_end_where_the_next_begins() -> None:
    data, positions = log_of(2, 3)
    (one,) = corrupt_ranges(scanned(data, limit=4))
    assert (one.position, one.expected, one.found) == (positions[1], "offsets from 2 to 3", "2 to 4")


def test_a_wrong_length_allocates_nothing_and_costs_one_batch() -> None:
    data, positions = log_of(2, 3, 1)
    data[positions[1] + 8 : positions[1] + 12] = b"\x7f\xff\xff\xff"
    items = scanned(data)
    assert [(one.position, one.end) for one in corrupt_ranges(items)] == [(positions[1], positions[2])]


@for_each("limit", [None, 4])
def test_a_length_that_skips_whole_batches_costs_one_batch(limit: int | None) -> None:
    data, positions = log_of(1, 1, 1, 1)
    data[positions[1] + 8 : positions[1] + 12] = (positions[3] - positions[1] - 12).to_bytes(4, "big")
    (one,) = corrupt_ranges(list(validated_batches(file_of(bytes(data)), len(data), 0, limit=limit)))
    assert (one.position, one.end) == (positions[1], positions[2])


@for_each("limit", [None, 2])
def test_a_batch_inside_a_value_is_not_part_of_the_log(limit: int | None) -> None:
    inner = batch(b"inner")
    stamp(inner, 0, 0, 0)
    outer = batch(b"x" * 50, bytes(inner) + b"y" * 50)
    stamp(outer, 0, 0, 0)
    outer[-1] ^= 1
    after = batch(b"after")
    stamp(after, 0, 2, 0)
    for data in (bytes(outer), bytes(outer + after)):
        items = list(validated_batches(file_of(data), len(data), 0, limit=limit if data == outer else None))
        assert [(one.position, one.end) for one in corrupt_ranges(items)] == [(0, len(outer))]
        assert len(items) == (1 if data == outer else 2)
