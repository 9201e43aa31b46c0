"""The names and contents of the ZooKeeper store's nodes."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import StorageFailed
from kqueue.metadata.store import VALUE_SIZE_MAX
from kqueue.metadata.zookeeper_nodes import (
    HISTORY_SIZE_MAX,
    PART_SIZE,
    Last,
    Layout,
    Payload,
    StoredValue,
    key_of,
    two_numbers,
)
from kqueue.tests.tables import for_each

KEYS = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=20).map("/".__add__)
VALUES = st.binary(max_size=50) | st.integers(0, 9000).map(bytes) | st.binary(min_size=4096, max_size=5000)


@given(KEYS)
def test_the_name_of_a_key_is_one_name_of_printable_ascii(key: str) -> None:
    path = Layout("/x").key(key)
    name = path.removeprefix("/x/kqueue/data/")
    assert name.isascii()
    assert name.isprintable()
    assert "/" not in name
    assert name not in ("", ".", "..")
    assert key_of(name) == key


def test_text_that_is_no_utf8_is_no_key() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        Layout("").key("/\ud800")


@for_each("name", ["", "1", "-", "1-", "-1", "a-1", "1-²", "1-2-3"])
def test_other_names_are_no_session_and_no_term(name: str) -> None:
    assert two_numbers(name) is None
    assert two_numbers("12-34") == (12, 34)


@given(VALUES, st.integers(0, 2**63))
def test_a_value_is_read_as_it_was_stored(value: bytes, number: int) -> None:
    payload = Payload.of(value)
    assert len(payload.content) <= len(value)
    stored = StoredValue.from_bytes(payload.to_bytes(number), "/p")
    assert (stored.number, stored.parts, stored.value("/p")) == (number, (), value)

    named, parts = Payload.in_parts(payload, "id-0")
    stored = StoredValue.from_bytes(named.to_bytes(number), "/p")
    assert stored.parts == tuple(parts)
    stored = stored._replace(content=b"".join(parts.values()))
    assert (stored.number, stored.value("/p")) == (number, value)


def test_parts_fit_into_a_request() -> None:
    value = bytes(VALUE_SIZE_MAX)
    _, parts = Payload.in_parts(Payload(b"=", value), "id")
    assert [len(part) for part in parts.values()] == [PART_SIZE, VALUE_SIZE_MAX - PART_SIZE]
    assert list(parts) == ["id-0", "id-1"]


@given(st.binary(max_size=60))
def test_damaged_nodes_raise_nothing_else(data: bytes) -> None:
    try:
        StoredValue.from_bytes(data, "/p").value("/p")
    except StorageFailed as error:
        assert "/p is damaged" in str(error)  # noqa: PT017
    try:
        Last.from_bytes(data, "/last")
    except StorageFailed as error:
        assert "/last" in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "number and a sign"),
        (b"=x", "number and a sign"),
        (b"-1=x", "number and a sign"),
        (b"9" * 30 + b"=x", "number and a sign"),
        (b"1@", "does not name its parts"),
        (b"1@=id 99999999999", "does not name its parts"),
        (b"1@=id \xff", "does not name its parts"),
        (b"1~" + zlib.compress(b"abc")[:-1], "cut off"),
        (b"1~" + zlib.compress(bytes(VALUE_SIZE_MAX + 1)), "more than 1048576 bytes"),
        (b"1=" + bytes(VALUE_SIZE_MAX + 1), "more than 1048576 bytes"),
    ],
)
def test_damaged_values(data: bytes, reason: str) -> None:
    with pytest.raises(StorageFailed, match=reason):
        StoredValue.from_bytes(data, "/p").value("/p")


@given(st.lists(st.lists(KEYS, max_size=4), max_size=12))
def test_history_tells_what_changed(commits: list[list[str]]) -> None:
    last = Last()
    for number, keys in enumerate(commits):
        last = last.after(f"id{number}", keys, broker_epochs=1)
    last = Last.from_bytes(last.to_bytes(), "/last")
    assert (last.number, last.broker_epoch, last.controller_epoch) == (len(commits), len(commits), 0)
    for number in range(len(commits)):
        assert last.number_of(f"id{number}") == number + 1
        assert last.changed_since(number) == {key for keys in commits[number:] for key in keys}
    assert last.changed_since(len(commits)) == set()
    assert last.changed_since(len(commits) + 1) is None
    assert last.number_of("other") is None


@pytest.mark.long
def test_history_is_bounded_and_knows_what_it_forgot() -> None:
    last = Last()
    for number in range(2000):
        last = last.after(f"{number:016x}", [f"/topics/topic-{number}"])
        assert len(last.to_bytes()) < HISTORY_SIZE_MAX + 200
    first = last.history[0].number
    assert 1700 > first > 1000, "some hundred commits are kept"
    assert last.changed_since(first - 1) is not None
    assert last.changed_since(first - 2) is None
    large = last.after("large", [f"/topics/topic-{number}" for number in range(2000)])
    assert large.number_of("large") == 2001
    assert large.changed_since(2000) is None, "too many keys"
    assert large.after("next", ["/a"]).changed_since(2001) == {"/a"}
