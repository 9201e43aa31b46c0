from __future__ import annotations

import logging
import pickle
from functools import partial
from pathlib import Path

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.log.config import LogConfig
from kqueue.log.formats.checkpoints import NO_CHECKPOINT
from kqueue.log.log import Log
from kqueue.log.recovery.recovered_log import RecoveredLog
from kqueue.log.recovery.recovery_task import MESSAGES_MAX, LogToRecover, RecoveryTask
from kqueue.storage import LocalStorage, Storage
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.helpers import START_MS, append

CONFIG = LogConfig.of()


def to_recover(*names: str) -> tuple[LogToRecover, ...]:
    return tuple(LogToRecover((name, 0), f"{name}-0", CONFIG, NO_CHECKPOINT) for name in names)


def filled(storage: Storage, name: str, count: int) -> None:
    log = Log.open(storage, f"{name}-0", CONFIG, ManualClock(START_MS))
    for _ in range(count):
        append(log, b"x")


def test_a_log_that_fails_does_not_stop_the_others() -> None:
    storage = FaultyStorage()
    for name, count in (("a", 1), ("b", 2), ("c", 3)):
        filled(storage, name, count)
    storage.fail("sync", lambda path: path.startswith("b-0/"))
    a, b, c, gone = RecoveryTask(lambda: storage, to_recover("a", "b", "c", "gone"), START_MS)().outcomes
    assert isinstance(a, RecoveredLog)
    assert isinstance(b, StorageFailed)
    assert isinstance(c, RecoveredLog)
    assert isinstance(gone, StorageFailed)
    assert (a.end_offset, c.end_offset) == (1, 3)
    assert "gone-0" in str(gone)
    assert not storage.exists("gone-0"), "a folder that was deleted meanwhile is not made again"


def test_an_unexpected_error_is_the_logs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = FaultyStorage()
    filled(storage, "a", 1)
    monkeypatch.setattr(storage, "list", lambda folder: 1 / 0)
    (outcome,) = RecoveryTask(lambda: storage, to_recover("a"), START_MS)().outcomes
    assert isinstance(outcome, StorageFailed)
    assert "ZeroDivisionError" in str(outcome)


def test_task_and_result_can_be_pickled(tmp_path: Path) -> None:
    filled(LocalStorage(tmp_path), "a", 2)
    task = RecoveryTask(partial(LocalStorage, tmp_path), to_recover("a"), START_MS, sends_messages=True)
    result = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(task))()))
    (outcome,) = result.outcomes
    assert isinstance(outcome, RecoveredLog)
    assert outcome.end_offset == 2
    assert result.messages == []


def test_messages_are_logged_here_or_sent(caplog: pytest.LogCaptureFixture) -> None:
    storage = FaultyStorage()
    filled(storage, "a", 2)
    file = storage.open("a-0/00000000000000000000.log")
    file.truncate(file.size - 1)
    with caplog.at_level(logging.INFO, "kqueue.log"):
        sent = RecoveryTask(lambda: storage, to_recover("a"), START_MS, sends_messages=True)()
        assert caplog.messages == []
        assert any("a-0" in line.text for line in sent.messages)
        assert all(line.level >= logging.INFO and line.event for line in sent.messages)
        file.truncate(file.size - 1)
        assert RecoveryTask(lambda: storage, to_recover("a"), START_MS)().messages == []
        assert any("a-0" in text for text in caplog.messages)
    assert len(sent.messages) < MESSAGES_MAX
