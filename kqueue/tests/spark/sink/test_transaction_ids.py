"""A transactional id belongs to one task at a time; a finished batch frees it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

import pytest

from kqueue.client import Client
from kqueue.spark.sink.transaction_ids import borrowed_id, drop_free_ids, pattern_of


@pytest.fixture(autouse=True)
def no_ids() -> Iterator[None]:
    drop_free_ids()
    yield
    drop_free_ids()


@pytest.fixture
def client() -> Client:
    return Client("localhost:1")


def used(client: Client, batch_id: int, done: int, query_id: str = "q") -> str:
    with borrowed_id(client, query_id, batch_id, done) as name:
        return name


def test_an_id_is_used_again_once_its_batch_is_done(client: Client) -> None:
    first = used(client, 3, 2)
    assert used(client, 3, 2) != first
    assert used(client, 4, 3) == first


def test_an_id_is_of_one_query_and_of_one_task_at_a_time(client: Client) -> None:
    first = used(client, 0, -1)
    assert used(client, 1, 0, "r") != first
    with borrowed_id(client, "q", 1, 0) as mine, borrowed_id(client, "q", 1, 0) as another:
        assert mine == first
        assert another != first


def test_an_id_is_left_after_an_error(client: Client) -> None:
    first = used(client, 0, -1)
    with suppress(KeyError), borrowed_id(client, "q", 1, 0) as mine:
        assert mine == first
        raise KeyError
    assert used(client, 2, 1) != first


def test_ids_of_a_query_are_told_from_those_of_others(client: Client) -> None:
    assert re.fullmatch(pattern_of("q"), used(client, 0, -1))
    for other in ("q-r", "qq", "q-" + "0" * 32):
        assert not re.fullmatch(pattern_of("q"), used(client, 0, -1, other))
