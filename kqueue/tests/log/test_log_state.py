"""The state machine of a log's failures; what each state refuses is in `test_faults` and
`test_log`.
"""

from __future__ import annotations

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.log.log_state import LogState
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.tests.log.helpers import append, flush, open_log, read_values

GONE = StorageFailed("the folder is gone")


def test_a_failed_write_makes_a_log_read_only_and_says_why_once(caplog: pytest.LogCaptureFixture) -> None:
    storage = FaultyStorage()
    log = open_log(storage)
    append(log, b"a")
    flush(log)
    called: list[str] = []
    log.on_flushed, log.on_failed = lambda: called.append("flushed"), lambda: called.append("failed")
    storage.fail("append")
    for _ in range(2):
        with pytest.raises(StorageFailed, match="EIO"):
            append(log, b"b")
    assert (log.health.state, called) == (LogState.READ_ONLY, ["flushed", "failed"])
    assert [record.message.partition(": can't")[0] for record in caplog.records] == [
        "faulty storage: t-0 is read-only until the next start, records below offset 1 are served"
    ]
    assert read_values(log, end_offset=1) == [b"a"]


def test_offline_is_final_and_keeps_the_first_reason() -> None:
    log = open_log()
    append(log, b"a")
    log.take_offline(GONE)
    log.take_offline(StorageFailed("later"))
    log._fail(StorageFailed("later still"))
    assert (log.health.state, log.health.failure) == (LogState.OFFLINE, GONE)
    for use in (
        lambda: append(log, b"b"),
        lambda: log.read(0, 100, end_offset=1),
        log.roll,
        lambda: log.truncate_to(0),
    ):
        with pytest.raises(StorageFailed, match="the folder is gone"):
            use()


def test_a_read_only_log_that_is_taken_offline_keeps_the_reason_of_its_failure() -> None:
    log = open_log()
    log._fail(GONE)
    log.take_offline(StorageFailed("deleted"))
    assert (log.health.state, log.health.failure) == (LogState.OFFLINE, GONE)
