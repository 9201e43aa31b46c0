from __future__ import annotations

import pytest

from kqueue.log.formats.filenames import file_name
from kqueue.log.log import Log
from kqueue.log.recovery.index_rebuild_job import start_index_rebuild
from kqueue.storage import MemoryStorage
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.stepped_jobs import SteppedJobs
from kqueue.tests.log.helpers import append, check_log, flush, open_log, read_values
from kqueue.tests.tables import for_each

SETTINGS = {"segment_bytes": 2000, "index_interval_bytes": 200}
INDEX = f"t-0/{file_name(0, '.index')}"


def with_a_wrong_index(storage: MemoryStorage | FaultyStorage) -> Log:
    """A log after a clean stop, one entry of whose oldest index names another place, which a read
    has found out.
    """
    log = open_log(storage, **SETTINGS)
    for number in range(60):
        append(log, b"%03d" % number)
    log.close()
    data = bytearray(storage.read(INDEX))
    data[8 * 2 + 7] ^= 16
    storage.write_atomic(INDEX, bytes(data))
    log = open_log(storage, clean=True, recovery_point=60, **SETTINGS)
    segment = log.segments.sealed_below(60)[0]
    for offset in range(segment.base, 20):
        located = segment.find(offset)
        assert located is not None
        assert located.unit.last_offset == offset, "what the index says is never trusted"
    assert segment.index_mismatch
    return log


def test_a_wrong_index_is_rebuilt_in_a_job() -> None:
    """S3.4"""
    storage, jobs = MemoryStorage(), SteppedJobs()
    log = with_a_wrong_index(storage)
    assert start_index_rebuild(log, jobs)
    assert len(read_values(log)) == 60
    jobs.run_all()
    assert not start_index_rebuild(log, jobs)
    check_log(log)
    check_log(open_log(storage, clean=True, recovery_point=60, **SETTINGS))


def test_a_log_with_right_indexes_starts_no_job() -> None:
    log = open_log(**SETTINGS)
    append(log, b"x")
    assert not start_index_rebuild(log, SteppedJobs())


@for_each("what", ["dropped", "offline"])
def test_a_segment_that_is_deleted_meanwhile_is_left_alone(what: str) -> None:
    storage, jobs = MemoryStorage(), SteppedJobs()
    log = with_a_wrong_index(storage)
    assert start_index_rebuild(log, jobs)
    before = storage.read(INDEX)
    if what == "dropped":
        assert log.delete_before(40, high_watermark=60, why="old") is not None
    else:
        log.abandon()
    jobs.run_all()
    assert storage.read(INDEX) == before


def test_a_disk_that_fails_leaves_the_log_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    storage, jobs = FaultyStorage(), SteppedJobs()
    log = with_a_wrong_index(storage)
    storage.fail("truncate", lambda path: path == INDEX)
    assert start_index_rebuild(log, jobs)
    jobs.run_all()
    assert "its index could not be written" in caplog.text
    assert len(read_values(log)) == 60
    append(log, b"more")
    flush(log)
