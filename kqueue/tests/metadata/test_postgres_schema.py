"""Formats of the PostgreSQL store's schema, over scripted answers; `compat_tests/postgres` has a
server.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.metadata.postgres_schema import MIGRATIONS, channel, prepare_schema
from kqueue.tests.metadata.postgres_model import ScriptedConnection, ScriptedServer


def connection(*answers: list[Any]) -> ScriptedConnection:
    return ScriptedConnection(ScriptedServer(*answers))


def test_a_schema_of_this_format_is_left_alone() -> None:
    prepare_schema(connection([(True,)], [(len(MIGRATIONS),)]), "kqueue")  # type: ignore[arg-type]


def test_a_table_of_formats_without_a_number_is_refused() -> None:
    with pytest.raises(StorageFailed, match="is no metadata store of kqueue"):
        prepare_schema(connection([(True,)], []), "kqueue")  # type: ignore[arg-type]


def test_the_longest_name_of_a_schema_makes_a_channel_that_postgres_takes_whole() -> None:
    assert len(channel("a" * 40)) < 64


def test_each_function_and_table_is_named_with_its_schema() -> None:
    """The search path of a database may be anything."""
    text = " ".join(statement for statements in MIGRATIONS for statement in statements)
    assert not re.findall(r"CREATE (?:TABLE|FUNCTION) (?!\{schema\}\.)\S+", text)
    tables = "counter|entries|deletions|sessions|requests|history"
    assert not re.findall(rf"(?:FROM|INTO|UPDATE|ON|JOIN) (?:{tables})\b", text)
