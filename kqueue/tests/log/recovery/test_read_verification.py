"""Verification before serving: S3.3 (checksums), S3.4 (wrong indexes), S4.1 (reads continue
behind damage).
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import CorruptBatch, StorageFailed
from kqueue.base.sliced_task import run_to_end
from kqueue.log.log import Log
from kqueue.log.recovery.damage import Damage
from kqueue.log.recovery.read_verification import DamagedBatch, SegmentVerification, VerificationResult, VerifiedRange
from kqueue.log.results import ReadResult
from kqueue.log.scanner.batch_scanner import scan
from kqueue.records.any_format import iter_any_records
from kqueue.records.batch import Record, iter_batches
from kqueue.records.message_set import encode_set
from kqueue.storage import MemoryStorage
from kqueue.testing.stepped_jobs import SteppedJobs
from kqueue.tests.log.helpers import START_MS, append, open_log
from kqueue.tests.tables import for_each

EPOCH_BYTES = range(12, 16)  # of a batch: neither checksums nor offsets say anything of its leader epoch
NAME = "t-0/00000000000000000000.log"


def written(storage: MemoryStorage, batches: int = 12, **settings: Any) -> list[bytes]:
    """Write batches of one to three records into small segments; return the values by offset."""
    log = open_log(storage, segment_bytes=600, index_interval_bytes=150, **settings)
    values: list[bytes] = []
    for number in range(batches):
        new = [b"%d" % (len(values) + index) * (1 + number % 5) for index in range(1 + number % 3)]
        append(log, *new, time_ms=START_MS + number)
        values += new
    log.close()
    return values


def reopened(storage: Any, **settings: Any) -> Log:
    return open_log(storage, clean=True, segment_bytes=600, index_interval_bytes=150, **settings)


def flip(storage: Any, path: str, position: int, bit: int) -> None:
    data = bytearray(storage.read(path))
    data[position] ^= 1 << bit
    storage.write_atomic(path, bytes(data))


def logs_of(storage: MemoryStorage) -> list[str]:
    return [f"t-0/{entry.name}" for entry in storage.list("t-0") if entry.name.endswith(".log")]


def checked(log: Log, offset: int, max_bytes: int = 1 << 20, **bounds: Any) -> ReadResult:
    """A read as a fetch does it: what has to be checked is, and then it is read again."""
    for _ in range(20):
        fetched = log.read(offset, max_bytes, end_offset=bounds.get("end_offset", log.end_offset))
        if fetched.check is None:
            return fetched
        log.reader.verify_now(fetched.check)
    raise AssertionError("the checks never end")


def served(log: Log, max_bytes: int = 400) -> tuple[dict[int, bytes | None], list[tuple[int, int]]]:
    """Read as a consumer that skips damage; return the records and the skipped offsets."""
    values: dict[int, bytes | None] = {}
    skipped = []
    offset = log.start_offset
    while offset < log.end_offset:
        try:
            fetched = checked(log, offset, max_bytes)
        except DamagedBatch as error:
            damaged = error.damaged_range
        else:
            assert fetched, offset
            values.update(
                (record.offset, record.value) for record in iter_any_records(fetched.read()) if record.offset >= offset
            )
            offset = fetched.next_offset
            continue
        assert damaged.offset <= offset < damaged.next_offset
        skipped.append((offset, damaged.next_offset))
        offset = damaged.next_offset
    return values, skipped


def test_valid_bytes_are_verified_once() -> None:
    storage = MemoryStorage()
    values = written(storage)
    log = reopened(storage)
    assert log.read(0, 100, end_offset=log.end_offset).check is not None
    assert served(log) == (dict(enumerate(values)), [])
    assert log.damage == []
    assert [segment.unverified_size for segment in log.segments] == [0] * len(log.segments)
    assert log.read(0, 100, end_offset=log.end_offset).check is None


def test_appended_bytes_need_no_verification() -> None:
    storage = MemoryStorage()
    values = written(storage)
    log = reopened(storage)
    old_end = log.end_offset
    append(log, b"new")
    fetched = log.read(old_end, 1000, end_offset=log.end_offset)
    assert fetched
    assert fetched.check is None
    new = open_log()
    append(new, b"x")
    assert new.read(0, 1000, end_offset=1).check is None
    assert served(log)[0] == {**dict(enumerate(values)), old_end: b"new"}


def test_verification_can_be_disabled() -> None:
    storage = MemoryStorage()
    written(storage)
    flip(storage, NAME, 70, 0)
    log = reopened(storage)
    log.reader.disable_verification()
    fetched = log.read(0, 100, end_offset=log.end_offset)
    assert fetched
    assert fetched.check is None


@pytest.mark.parametrize("position", [17, 21, 60, 61, 70])
def test_damage_is_reported_and_reads_continue_behind_it(position: int, caplog: pytest.LogCaptureFixture) -> None:
    """S4.1: a reader before the damage gets what comes before it, one beyond it goes on."""
    storage = MemoryStorage()
    values = written(storage)
    second = next(at for at, header in iter_batches(storage.read(NAME)) if header.base_offset == 1)
    flip(storage, NAME, second + position, 3)
    log = reopened(storage)
    served_values, skipped = served(log, 1 << 20)
    assert served_values == {offset: value for offset, value in enumerate(values) if offset not in (1, 2)}
    assert skipped == [(1, 3)]
    (damage,) = log.damage
    assert isinstance(damage, Damage)
    assert (damage.file, damage.position) == (NAME, second)
    assert "0x" in damage.expected
    assert damage.expected != damage.found
    assert sum(NAME in line for line in caplog.messages) == 1
    with pytest.raises(CorruptBatch, match="0000.log at position"):
        log.read(2, 100, end_offset=log.end_offset)
    assert checked(log, 3)


@given(data=st.data())
def test_a_flipped_bit_costs_its_batch_and_no_other(data: st.DataObject) -> None:
    """S3.3: one bit anywhere in sealed segments: what is served is right, and what is not served is
    one batch, or two neighbours.
    """
    storage = MemoryStorage()
    values = written(storage)
    path = data.draw(st.sampled_from(logs_of(storage)[:-1]))
    raw = storage.read(path)
    at = data.draw(st.integers(0, len(raw) - 1))
    units = {batch.position: batch.header for batch in scan(storage.open(path), 0, len(raw))}
    start, unit = next((start, unit) for start, unit in units.items() if start <= at < start + unit.size)
    flip(storage, path, at, data.draw(st.integers(0, 7)))
    log = reopened(storage)
    order = data.draw(st.permutations(range(0, len(values), 3)))
    for offset in order[:3]:  # consumers who begin anywhere, in any order
        with contextlib.suppress(DamagedBatch):
            records = list(iter_any_records(checked(log, offset, 300).read()))
            assert [record.value for record in records] == [values[record.offset] for record in records]
            assert records[0].offset <= offset <= records[-1].offset  # nothing was passed over in silence
    served_values, _ = served(log, data.draw(st.sampled_from([1, 200, 1 << 20])))
    assert served_values == {offset: values[offset] for offset in served_values}
    lost = set(range(len(values))) - set(served_values)
    if at - start in EPOCH_BYTES:
        assert not lost
        return
    assert lost == set(range(unit.last_offset - len(lost) + 1, unit.last_offset + 1)) or lost >= {unit.last_offset}
    assert lost
    assert len(lost) <= 6
    assert all(isinstance(damage, Damage) and damage.file == path for damage in log.damage)
    assert start in {damage.position for damage in log.damage if isinstance(damage, Damage)} or len(log.damage) == 1


@given(data=st.data())
def test_a_wrong_index_entry_does_not_change_what_is_read(data: st.DataObject) -> None:
    """S3.4: a flipped bit in the offset index of a sealed segment does not change reads."""
    storage = MemoryStorage()
    values = written(storage, 40)
    path = data.draw(st.sampled_from(logs_of(storage)[:-1])).removesuffix(".log") + ".index"
    raw = storage.read(path)
    if not raw:
        return
    flip(storage, path, data.draw(st.integers(0, len(raw) - 1)), data.draw(st.integers(0, 7)))
    log = reopened(storage)
    for offset in data.draw(st.lists(st.integers(0, len(values) - 1), max_size=4)):
        records = list(iter_any_records(checked(log, offset, 300).read()))
        assert records[0].offset <= offset <= records[-1].offset
    assert served(log, data.draw(st.sampled_from([1, 9000])))[0] == dict(enumerate(values))
    assert log.damage == []


def test_a_base_offset_that_is_too_high_costs_its_own_batch() -> None:
    """No checksum covers it; the batch after it gives it away, before either is served."""
    storage = MemoryStorage()
    values = written(storage)
    starts = {header.base_offset: at for at, header in iter_batches(storage.read(NAME))}
    flip(storage, NAME, starts[1] + 7, 1)  # offset 1 becomes 3
    log = reopened(storage)
    assert sorted(set(range(len(values))) - set(served(log)[0])) == [1, 2]
    (damage,) = log.damage
    assert "offsets 3 to 4" in str(damage)


def test_a_last_batch_whose_base_offset_is_too_low_is_not_passed_over() -> None:
    """Its header says that the segment ends before it, so that a read would begin with the next
    segment.
    """
    storage = MemoryStorage()
    values = written(storage)
    *_, (at, header) = iter_batches(storage.read(NAME))
    flip(storage, NAME, at + 7, 2)  # offset 12 becomes 8
    log = reopened(storage)
    with pytest.raises(DamagedBatch, match="expected offsets from 12 to below 13, found offsets 8 to 8"):
        checked(log, header.base_offset)
    assert served(log) == (
        {offset: value for offset, value in enumerate(values) if offset != header.base_offset},
        [(header.base_offset, header.base_offset + 1)],
    )


def test_a_gap_at_the_end_of_a_segment_is_passed_over_once_it_is_verified() -> None:
    """As compaction leaves it."""
    storage = MemoryStorage()
    written(storage)
    *_, (at, header) = iter_batches(storage.read(NAME))
    storage.write_atomic(NAME, storage.read(NAME)[:at])
    log = reopened(storage)
    assert next(record.offset for record in iter_any_records(checked(log, header.base_offset).read())) == 13
    log.reader.disable_verification()
    assert log.read(header.base_offset, 100, end_offset=log.end_offset).check is None


def test_old_formats_are_verified() -> None:
    """S3.3: magic 0 and 1, plain and in wrappers."""
    storage = MemoryStorage()
    open_log(storage).close()
    records = [Record(offset, START_MS, b"k", b"value %d" % offset) for offset in range(4)]
    sets = [encode_set(records[:1], 0, 0), encode_set(records[1:3], 1, 1), encode_set(records[3:], 1, 0)]
    storage.write_atomic(NAME, b"".join(sets))
    log = reopened(storage)
    assert served(log) == ({offset: b"value %d" % offset for offset in range(4)}, [])
    flip(storage, NAME, len(sets[0]) + len(sets[1]) - 3, 2)
    log = reopened(storage, recovery_point=4)
    assert served(log)[1] == [(1, 3)]
    assert log.damage[0].position == len(sets[0])  # type: ignore[union-attr]


def test_two_readers_share_one_task() -> None:
    storage = MemoryStorage()
    written(storage)
    log, jobs = reopened(storage), SteppedJobs()
    done: list[object] = []
    for _ in range(2):
        check = log.read(0, 100, end_offset=log.end_offset).check
        assert check is not None
        job = log.reader.verification_job(check, done.append)
        if job is not None:
            jobs.submit(job)
    assert len(jobs.pending) == 1
    jobs.run_all()
    assert done == [None, None]


@for_each("error", [StorageFailed("can't read"), FileNotFoundError("gone")])
def test_a_failed_read_is_reported_and_repeated(error: Exception) -> None:
    storage = MemoryStorage()
    written(storage)
    log = reopened(storage)
    check = log.read(0, 100, end_offset=log.end_offset).check
    assert check is not None
    outcomes: list[object] = []
    job = log.reader.verification_job(check, outcomes.append)
    assert job is not None
    job.finish(None, error)
    assert [isinstance(one, StorageFailed) and str(error) in str(one) for one in outcomes] == [True]
    again = log.read(0, 100, end_offset=log.end_offset).check
    assert again is not None
    assert log.reader.verification_job(again, outcomes.append) is not None


def test_a_task_verifies_ahead_so_that_a_sequential_reader_seldom_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times as far as it read."""
    monkeypatch.setattr("kqueue.log.reader.CHECK_BYTES_MIN", 10)
    storage = MemoryStorage()
    written(storage, 6)
    first = next(header.size for _, header in iter_batches(storage.read(NAME)))
    log = reopened(storage)
    check = log.read(0, first, end_offset=log.end_offset).check
    assert check is not None
    assert 4 * first <= check.run().verified_range.end < log.segments[0].size


def test_verified_ranges_are_merged() -> None:
    checks = SegmentVerification("x", 10, 1000)
    assert not checks.is_verified(0, 1)
    for start, end in ((400, 500), (0, 100), (90, 200), (450, 600), (200, 400)):
        assert checks.add(VerificationResult(VerifiedRange(start, end, end), ())) == []
    assert checks.verified_ranges == [VerifiedRange(0, 600, 600)]
    assert checks.is_verified(0, 600)
    assert not checks.is_complete
    checks.add(VerificationResult(VerifiedRange(600, 1000, 50), ()))
    assert checks.is_complete


def test_a_torn_end_of_a_sealed_segment_is_damage() -> None:
    storage = MemoryStorage()
    values = written(storage)
    whole = storage.read(NAME)
    storage.write_atomic(NAME, whole[:-5])
    log = reopened(storage)
    last = list(iter_batches(whole))[-1]
    served_values, skipped = served(log)
    assert sorted(set(range(len(values))) - set(served_values)) == list(range(last[1].base_offset, last[1].next_offset))
    assert skipped == [(last[1].base_offset, last[1].next_offset)]


def test_truncation_clears_the_verified_ranges() -> None:
    storage = MemoryStorage()
    values = written(storage)
    log = reopened(storage)
    checked(log, log.end_offset - 1)
    log.truncate_to(2)
    append(log, b"new", b"newer")
    assert served(log)[0] == {0: values[0], 1: b"new", 2: b"newer"}


def test_searches_by_time_never_trust_damaged_batches() -> None:
    """S4.2"""
    storage = MemoryStorage()
    written(storage)
    log = reopened(storage)
    assert run_to_end(log.offset_for_time(START_MS + 1, log.end_offset)) is not None
    second = next(at for at, header in iter_batches(storage.read(NAME)) if header.base_offset == 1)
    flip(storage, NAME, second + 70, 0)
    log = reopened(storage)
    with pytest.raises(CorruptBatch):
        run_to_end(log.offset_for_time(START_MS + 1, log.end_offset))
    assert run_to_end(log.offset_for_time(START_MS + 3, log.end_offset)) is not None


@given(data=st.data())
def test_a_wrong_time_index_does_not_change_what_is_found(data: st.DataObject) -> None:
    """S4.2, S3.4: one bit anywhere in the time indexes of sealed segments: the same record is found
    as ever.
    """
    storage = MemoryStorage()
    values = written(storage, 30)
    log = reopened(storage)
    times = [START_MS + data.draw(st.integers(-2, 40)) for _ in range(3)]
    expected = [run_to_end(log.offset_for_time(time, len(values))) for time in times]
    path = data.draw(st.sampled_from(logs_of(storage)[:-1])).removesuffix(".log") + ".timeindex"
    raw = storage.read(path)
    flip(storage, path, data.draw(st.integers(0, len(raw) - 1)), data.draw(st.integers(0, 7)))
    log = reopened(storage)
    assert [run_to_end(log.offset_for_time(time, len(values))) for time in times] == expected
    assert max(segment.max_timestamp for segment in log.segments) == START_MS + 31
