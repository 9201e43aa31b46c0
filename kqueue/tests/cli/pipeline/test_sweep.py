from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

pytest.importorskip("numpy", reason="rows are placed with NumPy")

from kqueue.client import Client
from kqueue.spark.sink.batch_commit import commit
from kqueue.spark.sink.options import parse_options
from kqueue.spark.sink.write_task import BatchIdentity, stage_rows
from kqueue.tests.spark.sink.helpers import rows_of

Kq = Callable[..., Result]
Done = Callable[..., str]


@pytest.fixture
def query(bootstrap: str, topic: str, fresh: str) -> str:
    """One that wrote batch 4."""
    given = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "delivery": "exactly-once"}
    options = parse_options(given, streaming=True)
    with Client(bootstrap) as client:
        commit(client, fresh, 4, stage_rows(options, BatchIdentity(fresh, 4, 0), [rows_of("abc")]).staged)
    return fresh


def test_sweep_without_options_lists_and_changes_nothing(done: Done, query: str) -> None:
    for _ in range(2):
        head, *rows = done("pipeline", "sweep").splitlines()
        assert head.split() == ["QUERY", "LAST", "WRITE", "LAST", "BATCH", "STATE"]
        (mine,) = (row for row in rows if row.startswith(query))
        assert mine.endswith("4           nothing under way")
    (listed,) = (
        one for one in map(json.loads, done("pipeline", "sweep", "--json").splitlines()) if one["query_id"] == query
    )
    assert (listed["done"], listed["unfinished"], listed["staged"]) == (4, None, 0)


def test_a_query_by_its_id_or_its_checkpoint(done: Done, kq: Kq, query: str, tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text(json.dumps({"id": query}))
    assert done("pipeline", "sweep", "--query", query, "--dry-run") == f"Would forget {query}.\n"
    assert done("pipeline", "sweep", "--checkpoint", str(tmp_path), "--query", query) == f"Forgot {query}.\n"
    assert query not in done("pipeline", "sweep")
    again = kq("pipeline", "sweep", "--query", query)
    assert again.exit_code == 1
    assert again.stderr.startswith(f"Error: {query} was not forgotten: nothing is kept for the query {query!r}")


def test_failed_query_does_not_hold_up_the_others(done: Done, kq: Kq, query: str) -> None:
    result = kq("pipeline", "sweep", "--query", "no-such-query", "--query", query)
    assert result.exit_code == 1
    assert result.stdout == f"Forgot {query}.\n"
    assert result.stderr.startswith("Error: no-such-query was not forgotten: ")


def test_recently_used_query_is_kept(done: Done, query: str) -> None:
    assert done("pipeline", "sweep", "--unused-for", "1") == "Nothing to forget.\n"
    assert query in done("pipeline", "sweep")


def test_wrong_or_unreachable_address_ends_with_one_sentence(kq: Kq) -> None:
    result = kq("pipeline", "sweep", "-b", "localhost:nothing")
    assert result.exit_code == 2
    assert "'localhost:nothing' is no address; write HOST:PORT" in result.stderr
    result = kq("pipeline", "sweep", "-b", "127.0.0.1:1")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: no broker answers at 127.0.0.1:1")
