from __future__ import annotations

from typing import Any

from kqueue.schema_registry.schema_log import InMemorySchemaLog


def test_follower_gets_earlier_records_and_each_new_one_before_append_returns() -> None:
    log = InMemorySchemaLog(lambda: 7)
    assert log.append(b"a", b"1") == 0
    applied: list[Any] = []
    log.follow(lambda *record: applied.append(record))
    assert applied == [(0, b"a", b"1", 7)]
    assert log.append(b"a", None) == 1
    assert applied[1:] == [(1, b"a", None, 7)]
