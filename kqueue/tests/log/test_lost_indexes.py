"""Indexes that are cut, removed or can't be read while their log is in use. SPEC S3.4: they are
hints.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kqueue.base.errors import CorruptIndex, TooManyOpenFiles
from kqueue.base.sliced_task import run_to_end
from kqueue.log.formats.filenames import INDEX, TIMEINDEX, TXNINDEX
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.log.log import Log
from kqueue.log.recovery.index_rebuild_job import start_index_rebuild
from kqueue.storage import LocalStorage, Storage
from kqueue.storage.descriptor_cache import DescriptorCache
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.stepped_jobs import SteppedJobs
from kqueue.tests.log.helpers import START_MS, append, check_log, flush, open_log, read_values
from kqueue.tests.thorough import corners

SETTINGS = {"segment_bytes": 3000, "index_interval_bytes": 200, "file_delete_delay_ms": 0}
RECORDS = 100
KINDS = (INDEX, TIMEINDEX)


def stopped(storage: Storage) -> None:
    """A log of several segments after a clean stop; each record has a time of its own."""
    log = open_log(storage, **SETTINGS)
    for number in range(RECORDS):
        append(log, b"%03d" % number, time_ms=START_MS + number)
    log.close()


def reopened(storage: Storage) -> Log:
    return open_log(storage, clean=True, recovery_point=RECORDS, **SETTINGS)


def is_index(path: str) -> bool:
    return path.endswith(KINDS)


def use(log: Log) -> None:
    """Look up every offset and every time; all answers are right."""
    for offset in range(log.end_offset):
        segment = next(one for one in reversed(log.segments) if one.base <= offset)
        located = segment.find(offset)
        assert located is not None
        assert located.unit.last_offset == offset
    for number in range(RECORDS):
        time = run_to_end(log.offset_for_time(START_MS + number, log.end_offset))
        assert time is not None
        assert (time.timestamp, time.offset) == (START_MS + number, number)
    latest = run_to_end(log.latest_timestamp())
    assert latest is not None
    assert latest.offset == log.end_offset - 1
    assert read_values(log, max_bytes=700)[:RECORDS] == [b"%03d" % number for number in range(RECORDS)]


def rebuild(log: Log) -> None:
    jobs = SteppedJobs()
    while start_index_rebuild(log, jobs):
        jobs.run_all()
    check_log(log)


def errors_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def cut_to(size: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, min(size, path.stat().st_size))


def cut_last_byte(path: Path) -> None:
    os.truncate(path, max(path.stat().st_size - 1, 0))


HOW: dict[str, Callable[[Path], None]] = {
    "emptied": cut_to(0),
    "within an entry": cut_to(13),
    "within the last": cut_last_byte,
    "half": cut_to(48),
    "removed": lambda path: path.unlink(),
    "replaced": lambda path: path.write_bytes(bytes(path.stat().st_size)),
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("appended", corners([False, True], True))
def test_indexes_that_are_cut_under_an_open_log(
    tmp_path: Path, how: str, appended: bool, caplog: pytest.LogCaptureFixture
) -> None:
    storage = LocalStorage(
        tmp_path, DescriptorCache(4)
    )  # so that descriptors are given up, and files opened again by name
    stopped(storage)
    log = reopened(storage)
    if appended:
        for number in range(3):
            append(log, b"more", time_ms=START_MS + RECORDS + number)
    for path in (tmp_path / "t-0").iterdir():
        if is_index(path.name):
            HOW[how](path)
    use(log)
    for number in range(10):
        append(log, b"more", time_ms=START_MS + RECORDS + 10 + number)
        use(log)
    flush(log)
    log.roll()
    append(log, b"last", time_ms=START_MS + 2 * RECORDS)
    use(log)
    assert len(errors_of(caplog)) <= len(log.segments), "one line for each segment at most"
    rebuild(log)
    use(log)
    log.close()
    again = open_log(storage, clean=True, recovery_point=log.end_offset, **SETTINGS)
    check_log(again)
    use(again)


@pytest.mark.parametrize("how", HOW)
def test_indexes_that_were_not_rebuilt_before_a_stop_are_rebuilt_at_the_next_start(tmp_path: Path, how: str) -> None:
    """Cut to whole entries, nothing in their files says so."""
    storage = LocalStorage(tmp_path, DescriptorCache(4))
    stopped(storage)
    log = reopened(storage)
    for path in (tmp_path / "t-0").iterdir():
        if is_index(path.name):
            HOW[how](path)
    use(log)
    log.close()
    log = reopened(storage)
    use(log)
    check_log(log)


@pytest.mark.parametrize("appended", [False, True])
def test_indexes_that_can_not_be_read(appended: bool, caplog: pytest.LogCaptureFixture) -> None:
    storage = FaultyStorage()
    stopped(storage)
    log = reopened(storage)
    if appended:
        append(log, b"more", time_ms=START_MS + RECORDS)
    storage.fail("read", is_index)
    use(log)
    for number in range(10):
        append(log, b"more", time_ms=START_MS + RECORDS + 10 + number)
    use(log)
    flush(log)
    log.roll()
    use(log)
    assert log.health.failure is None
    assert errors_of(caplog)
    assert len(errors_of(caplog)) <= len(log.segments)
    storage.mend()
    rebuild(log)
    use(log)


def test_a_rebuild_that_can_not_be_written_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    storage, jobs = FaultyStorage(), SteppedJobs()
    stopped(storage)
    log = reopened(storage)
    storage.fail("read", is_index)
    use(log)
    storage.fail("append", is_index)
    assert start_index_rebuild(log, jobs)
    jobs.run_all()
    assert log.health.failure is None
    assert "its index could not be written" in caplog.text
    use(log)


def test_a_log_is_recovered_whose_indexes_can_not_be_read_at_the_start() -> None:
    storage = FaultyStorage()
    stopped(storage)
    storage.fail("read", lambda path: path.endswith(KINDS) and "0" * 20 not in path)
    log = reopened(storage)
    assert log.end_offset == RECORDS
    storage.mend()
    rebuild(log)
    use(log)


def test_too_few_descriptors_say_nothing_of_an_index() -> None:
    storage = FaultyStorage()
    stopped(storage)
    log = reopened(storage)
    storage.fail("read", is_index, number=24)  # EMFILE
    with pytest.raises(TooManyOpenFiles):
        log.segments[0].find(15)
    storage.mend()
    assert not log.segments[0].index_mismatch


def test_aborted_transactions_are_never_forgotten_with_a_cut_index(tmp_path: Path) -> None:
    log = open_log(LocalStorage(tmp_path))
    append(log, b"x")
    log.segments.active.txnindex.append(AbortedTxn(1, 0, 5, 0))
    assert len(log.reader.aborted(0, 1)) == 1
    os.truncate(next((tmp_path / "t-0").glob(f"*{TXNINDEX}")), 0)
    with pytest.raises(CorruptIndex, match=r"txnindex was cut: expected 34 bytes, found 0"):
        log.reader.aborted(0, 1)
