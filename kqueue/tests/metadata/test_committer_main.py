"""The answers of a committer, in this process, and the end of its program."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kqueue.base.errors import Conflict, SessionLost
from kqueue.metadata.committer_main import CommitterStore
from kqueue.metadata.committer_requests import Answer, Caller
from kqueue.metadata.sqlite_committer import CommitterProcess
from kqueue.metadata.sqlite_sessions import SessionRow
from kqueue.testing.manual_clock import ManualClock

NONE = Caller(frozenset())

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there are no committers elsewhere")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    clock = ManualClock()
    monkeypatch.setattr("kqueue.metadata.sqlite.SystemClock", lambda: clock)
    return clock


@pytest.fixture
def store(clock: ManualClock, tmp_path: Path) -> Iterator[CommitterStore]:
    with closing(CommitterStore(str(tmp_path / "kqueue.db"), None)) as store:
        yield store


def put(store: CommitterStore, caller: Caller, guards: dict[str, int] | None = None) -> Answer:
    return store.serve("commit", caller, (guards or {}, {"/a": b"1"}, []))


def registered(store: CommitterStore) -> SessionRow:
    row: Any = store.serve("register", NONE, (1, "one", 1000)).result
    assert isinstance(row, SessionRow)
    return row


def test_commit_of_a_caller_without_a_session_is_answered_with_the_versions(store: CommitterStore) -> None:
    assert put(store, NONE) == Answer({"/a": 1})


def test_commit_whose_guard_has_changed_is_answered_with_its_error(store: CommitterStore) -> None:
    put(store, NONE)
    result, error, *lost = put(store, NONE, {"/a": 7})
    assert result is None
    assert isinstance(error, Conflict)
    assert lost == [False, False]


def test_sign_of_life_of_a_session_is_answered_with_its_new_deadline(store: CommitterStore, clock: ManualClock) -> None:
    row = registered(store)
    clock.advance(400)
    answer = store.serve("keep_alive", Caller(frozenset({row.epoch}), row), ())
    assert answer == Answer(row.deadline_ms + 400)


def test_commit_by_a_session_that_has_ended_is_answered_as_lost(store: CommitterStore, clock: ManualClock) -> None:
    row = registered(store)
    by = Caller(frozenset({row.epoch}), row)
    assert put(store, by).error is None
    clock.advance(1001)
    answer = put(store, by)
    assert isinstance(answer.error, SessionLost)
    assert answer.lost_session


def test_commit_by_a_term_that_has_ended_is_answered_as_lost(store: CommitterStore) -> None:
    row = registered(store)
    own = frozenset({row.epoch})
    term = store.serve("campaign", Caller(own, row), ()).result
    by = Caller(own, row, term)
    assert put(store, by).error is None
    assert store.serve("end", by, ()).error is None
    answer = put(store, by)
    assert isinstance(answer.error, SessionLost)
    assert answer.lost_term
    assert put(store, Caller(own, row)).error is None, "its session goes on"


def test_signals_that_stop_a_service_do_not_end_its_committer(tmp_path: Path) -> None:
    with closing(CommitterProcess(str(tmp_path / "kqueue.db"), None)) as committer:
        pid = committer.pid
        assert pid is not None
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(pid, number)
        assert committer.call("commit", NONE, ({}, {"/a": b"1"}, [])) == Answer({"/a": 1})
        assert committer.pid == pid


def test_committer_ends_when_its_input_does(tmp_path: Path) -> None:
    committer = CommitterProcess(str(tmp_path / "kqueue.db"), None)
    process = committer._process
    assert process is not None
    committer.close()
    assert process.returncode == 0
