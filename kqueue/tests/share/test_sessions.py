"""Share sessions: epochs, replacement, bounds, connections."""

from __future__ import annotations

import pytest

from kqueue.share import sessions
from kqueue.share.errors import InvalidShareSessionEpoch, ShareSessionLimitReached, ShareSessionNotFound
from kqueue.share.sessions import EPOCH_FINAL, EPOCH_MAX, EPOCH_NEW, MemberKey, ShareSessions

A, B = MemberKey("g", "a"), MemberKey("g", "b")
P0, P1 = (b"\1" * 16, 0), (b"\1" * 16, 1)


def test_epochs_count_up_and_begin_again() -> None:
    all_sessions = ShareSessions(lambda: 2)
    session = all_sessions.create(A, [P0], None)
    assert all_sessions.use(A, 1) is session
    with pytest.raises(InvalidShareSessionEpoch, match="expected epoch 2, found 1"):
        all_sessions.use(A, 1)
    session.epoch = EPOCH_MAX
    all_sessions.use(A, EPOCH_MAX)
    assert all_sessions.use(A, 1) is session
    assert all_sessions.use(A, -1) is session
    with pytest.raises(ShareSessionNotFound):
        all_sessions.use(B, 1)


def test_a_fetch_adds_and_forgets_partitions_but_the_last_one_does_not() -> None:
    all_sessions = ShareSessions(lambda: 2)
    session, added = all_sessions.open(A, EPOCH_NEW, [P0], [P0], None)
    assert added == [P0]
    assert list(session.partitions) == [P0], "a new session has nothing to forget"
    assert all_sessions.open(A, 1, [P0, P1], [P0], None) == (session, [P1])
    assert list(session.partitions) == [P1]
    assert all_sessions.open(A, EPOCH_FINAL, [P0], [P1], None) == (session, [P0])
    assert list(session.partitions) == [P1]


def test_partitions_change_and_rotate() -> None:
    all_sessions = ShareSessions(lambda: 2)
    session = all_sessions.create(A, [P0, P0], None)
    all_sessions.update(session, [P1], [])
    session.rotate(P0)
    session.rotate((b"\2" * 16, 0))
    assert list(session.partitions) == [P1, P0]
    all_sessions.update(session, [], [P1, P1])
    assert list(session.partitions) == [P0]


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    all_sessions = ShareSessions(lambda: 1)
    all_sessions.create(A, [P0], "c")
    with pytest.raises(ShareSessionLimitReached):
        all_sessions.create(B, [P0], "c")
    all_sessions.create(A, [P0], "c")
    monkeypatch.setattr(sessions, "PARTITIONS_MAX", 1)
    with pytest.raises(ShareSessionLimitReached):
        all_sessions.create(A, [P0, P1], "c")
    monkeypatch.setattr(sessions, "PARTITIONS_MAX", 10)
    monkeypatch.setattr(sessions, "SESSION_PARTITIONS_MAX", 1)
    with pytest.raises(ShareSessionLimitReached, match="a share session has at most 1"):
        all_sessions.create(A, [P0, P1], "c")
    assert len(all_sessions) == 0
    assert len(all_sessions.create(B, [P0], "c").partitions) == 1


def test_sessions_of_a_connection() -> None:
    all_sessions = ShareSessions(lambda: 2)
    first = all_sessions.create(A, [P0], "c")
    second = all_sessions.create(B, [P0], "c")
    assert set(all_sessions.of_connection("c")) == {first, second}
    all_sessions.remove(A)
    all_sessions.remove(A)
    assert all_sessions.of_connection("c") == [second]
    all_sessions.create(B, [P0], "d")
    assert all_sessions.of_connection("c") == []
