"""A server that lacks a commit that was seen, over scripted answers."""

from __future__ import annotations

from typing import Any

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.metadata.postgres_lineage import Lineage
from kqueue.tests.metadata.postgres_model import ScriptedConnection, ScriptedServer
from kqueue.tests.tables import for_each


def connection(*answers: list[Any]) -> Any:
    return ScriptedConnection(ScriptedServer(*answers))


def lineage(version: int) -> Lineage:
    """One that has seen a commit of this version."""
    seen = Lineage("kqueue", "h:5432/d")
    seen.note(version, "one")
    return seen


def test_a_store_that_has_seen_nothing_asks_nothing() -> None:
    fresh = Lineage("kqueue", "h:5432/d")
    fresh.note(0, None)
    fresh.check(connection())


@for_each(
    "last, oldest, is_known, what",
    [(7, 1, True, "it follows"), (5, 1, True, "it is the last"), (20, 9, False, "forgotten since")],
)
def test_a_server_that_may_have_the_commit_is_used(last: int, oldest: int, is_known: bool, what: str) -> None:
    lineage(5).check(connection([(last, oldest, is_known)]))


@for_each(
    "last, oldest, is_known",
    [(4, 1, False), (5, 1, False), (900, 1, False), (0, None, False), (4, 6, False)],
)
def test_a_server_without_the_commit_went_back(last: int, oldest: int | None, is_known: bool) -> None:
    with pytest.raises(StorageFailed, match=f"h:5432/d went back from commit 5, and has another commit {last}: "):
        lineage(5).check(connection([(last, oldest, is_known)]))


def test_an_older_version_than_one_that_was_seen_went_back() -> None:
    seen = lineage(5)
    seen.note(5, "one")
    with pytest.raises(StorageFailed, match="went back from commit 5, and has another commit 4"):
        seen.note(4, "other")
    with pytest.raises(StorageFailed, match="went back from commit 5"):
        seen.note(0, None)
