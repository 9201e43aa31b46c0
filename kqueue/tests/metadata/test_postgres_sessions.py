"""Sessions and terms of the PostgreSQL store: what is known to have ended."""

from __future__ import annotations

import pytest

from kqueue.base.errors import SessionLost
from kqueue.metadata.postgres_sessions import PostgresSession, PostgresTerm, check_not_lost, lost_error


class Store:
    """Notes its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []

    def keep_alive(self, session: PostgresSession) -> None:
        self.calls.append(("keep_alive", session))

    def end(self, holder: PostgresSession | PostgresTerm) -> None:
        self.calls.append(("end", holder))


def test_a_term_ends_with_its_session_and_not_the_other_way_round() -> None:
    session = PostgresSession(Store(), 1, "one", 5, 1000)
    first, second = PostgresTerm(Store(), session, 1), PostgresTerm(Store(), session, 2)
    assert "its term 1 has ended" in str(lost_error(first, only_term=True))
    assert (first.lost, second.lost, session.lost) == (True, False, False)
    with pytest.raises(SessionLost, match="its term 1 has ended"):
        check_not_lost(first)
    check_not_lost(second)
    assert "broker epoch 5 has ended" in str(lost_error(second))
    assert (second.lost, session.lost) == (True, True)
    with pytest.raises(SessionLost, match="broker epoch 5 has ended"):
        check_not_lost(second)


def test_calls_go_to_the_store() -> None:
    store = Store()
    session = PostgresSession(store, 1, "one", 5, 1000)
    term = PostgresTerm(store, session, 1)
    session.keep_alive()
    term.resign()
    session.end()
    assert store.calls == [("keep_alive", session), ("end", term), ("end", session)]
