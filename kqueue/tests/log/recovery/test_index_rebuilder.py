from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kqueue.log.formats.leader_epochs import LeaderEpochCache
from kqueue.log.producer_state import ProducerStateManager
from kqueue.log.recovery.index_rebuilder import IndexRebuilder
from kqueue.log.scanner.batch_scanner import CorruptRange, ScannedBatch
from kqueue.log.scanner.header_validation import validated_batches
from kqueue.log.segment import Segment
from kqueue.records.batch import stamp
from kqueue.records.message_set import encode_set
from kqueue.records.record import Record
from kqueue.storage import MemoryStorage
from kqueue.storage.memory import MemoryFile
from kqueue.tests.log.helpers import START_MS, batch
from kqueue.tests.tables import for_each


def unit(base: int, count: int = 2, epoch: int = 0) -> bytes:
    buf = batch(*(b"%d" % (base + number) for number in range(count)), time_ms=START_MS + base)
    stamp(buf, 0, base, epoch)
    return bytes(buf)


def file_of(*parts: bytes) -> MemoryFile:
    file = MemoryStorage().open("a.log", create=True)
    for part in parts:
        file.append(part)
    return file


def scanned(*parts: bytes, limit: int | None = None) -> list[tuple[int, int] | str]:
    """Offsets of each batch, "corrupt" for a range without one; together they are the file."""
    file = file_of(*parts)
    positions: list[tuple[int, int] | str] = []
    position = 0
    for one in validated_batches(file, file.size, 0, limit=limit, check_epochs=False):
        start, end = (
            (one.position, one.position + one.header.size) if isinstance(one, ScannedBatch) else (one.position, one.end)
        )
        assert start == position, "each byte is in exactly one"
        position = end
        if isinstance(one, CorruptRange):
            assert one.expected
            assert one.found
            positions.append("corrupt")
        else:
            base = one.header.base_offset if one.header.magic == 2 else one.header.last_offset
            positions.append((base, one.header.last_offset))
    assert position == file.size
    return positions


def test_a_whole_log_is_whole_with_gaps_too() -> None:
    """S5.2, S5.3: compaction leaves gaps."""
    assert scanned(unit(0), unit(2), unit(9)) == [(0, 1), (2, 3), (9, 10)]
    assert scanned() == []


def test_a_torn_end_is_one_corrupt_range() -> None:
    whole = unit(2)
    for size in (1, 17, 60, len(whole) - 1):
        assert scanned(unit(0), whole[:size]) == [(0, 1), "corrupt"]


def test_a_wrong_checksum_costs_one_batch() -> None:
    wrong = bytearray(unit(2))
    wrong[-1] ^= 1
    assert scanned(unit(0), bytes(wrong), unit(4)) == [(0, 1), "corrupt", (4, 5)]
    assert scanned(unit(0), bytes(wrong)) == [(0, 1), "corrupt"]


def test_a_wrong_length_costs_what_can_not_be_found_again() -> None:
    wrong = bytearray(unit(2))
    wrong[10] ^= 1
    assert scanned(unit(0), bytes(wrong), unit(4), unit(6)) == [(0, 1), "corrupt", (4, 5), (6, 7)]


@for_each("base", [3, 4, 5, 6, 7, 70, 2**31 + 1, 2**40])
def test_a_batch_whose_offset_was_changed_upwards_is_the_wrong_one_and_not_those_after_it(base: int) -> None:
    assert scanned(unit(0), unit(base), unit(4), unit(6)) in (
        [(0, 1), "corrupt", (4, 5), (6, 7)],
        [(0, 1), (base, base + 1), "corrupt", (6, 7)],
    )
    assert scanned(unit(0), unit(70), unit(4), unit(6)) == [(0, 1), "corrupt", (4, 5), (6, 7)]


def test_a_batch_whose_offset_was_changed_downwards_is_the_wrong_one() -> None:
    assert scanned(unit(0), unit(2), unit(1), unit(6)) == [(0, 1), (2, 3), "corrupt", (6, 7)]


def test_nothing_reaches_into_the_next_segment() -> None:
    assert scanned(unit(0), unit(2), limit=4) == [(0, 1), (2, 3)]
    assert scanned(unit(0), unit(3), limit=4) == [(0, 1), "corrupt"]


def test_old_formats_are_scanned() -> None:
    records = [Record(number, START_MS, None, b"%d" % number) for number in range(3)]
    plain, wrapped = encode_set(records[:2], 1), encode_set(records[2:], 1, 1)
    assert scanned(plain, wrapped, unit(3)) == [(0, 0), (1, 1), (2, 2), (3, 4)]
    damaged = bytearray(plain)
    damaged[20] ^= 4
    assert scanned(bytes(damaged), wrapped)[-1] == (2, 2)


@given(st.data())
def test_flipped_bit_never_makes_a_new_batch(data: st.DataObject) -> None:
    parts = [unit(base, 2) for base in range(0, 12, 2)]
    whole = bytearray(b"".join(parts))
    at = data.draw(st.integers(0, len(whole) - len(parts[-1]) - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    positions = scanned(bytes(whole), limit=12)
    right = [(base, base + 1) for base in range(0, 12, 2)]
    wrong = [one for one in positions if one != "corrupt" and one not in right]
    assert len(wrong) <= 1, "a base offset that its neighbours allow"
    assert sum(one in right for one in positions) >= len(right) - 2


def rebuilt(segment_parts: list[bytes], **bounds: int | bool | None) -> IndexRebuilder:
    storage = MemoryStorage()
    storage.make_folder("t-0")
    segment = Segment.open(storage, "t-0", 0, START_MS, create=True)
    segment.log.append(b"".join(segment_parts))
    rebuild = IndexRebuilder(segment, "t-0", 0, ProducerStateManager(), LeaderEpochCache())
    rebuild.size = segment.log.size
    rebuild.run(None, **bounds)  # type: ignore[arg-type]
    return rebuild


def test_damage_below_the_bound_is_kept_and_beyond_it_ends_the_log() -> None:
    wrong = bytearray(unit(2))
    wrong[-1] ^= 1
    parts = [unit(0), bytes(wrong), unit(4)]
    kept = rebuilt(parts, cut_from=3)
    assert (kept.cut, kept.end_offset, len(kept.damage)) == (None, 6, 1)
    assert kept.damage[0].position == len(parts[0])
    cut = rebuilt(parts, cut_from=2)
    assert cut.cut is not None
    assert (cut.cut.position, cut.end, cut.end_offset, cut.damage) == (len(parts[0]), len(parts[0]), 2, [])


def test_the_last_batch_of_a_log_without_gaps_has_none_before_it() -> None:
    parts = [unit(0), unit(2), unit(9)]
    cut = rebuilt(parts, cut_from=4, gapless=True).cut
    assert cut is not None
    assert cut.position == len(parts[0]) * 2
    assert rebuilt(parts, cut_from=4).cut is None
    assert rebuilt([unit(0), unit(5), unit(9)], cut_from=4, gapless=True).cut is None, "it has gaps: it was compacted"
    assert rebuilt(parts, cut_from=11, gapless=True).end_offset == 11, "it was flushed so"


def test_leader_epochs_never_fall_so_one_that_rose_alone_is_wrong() -> None:
    result = rebuilt([unit(0, epoch=1), unit(2, epoch=9), unit(4, epoch=2), unit(6, epoch=2)])
    assert result.epochs.entries() == [(1, 0), (2, 4)]
    (damage,) = result.damage
    assert "a leader epoch of 2 at most in the batch of offset 2" in damage.expected
