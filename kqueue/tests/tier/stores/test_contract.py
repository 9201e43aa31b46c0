"""Keys, prefixes and parts: what every store checks in the same way."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kqueue.tests.tables import for_each
from kqueue.tier.stores import contract
from kqueue.tier.stores.contract import Buffer, check_key, check_prefix, check_range, counted_parts, is_key, joined


@for_each("key", ["a", "topics/a_b/AZ-09.x", ".a", "a..b/..c", "-", "k" * 255])
def test_keys_of_the_allowed_characters_are_accepted(key: str) -> None:
    assert check_key(key) == key
    assert is_key(key)


@for_each(
    "key",
    [
        *("", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/./b", "a\\b", "a\0", "a b", "ä", "a\n"),
        *("k" * 256, "/".join("a" * 257)),
    ],
)
def test_a_key_that_could_lead_elsewhere_is_refused(key: str) -> None:
    assert not is_key(key)
    with pytest.raises(ValueError, match=r"^key "):
        check_key(key)


def test_message_about_a_long_key_is_short() -> None:
    with pytest.raises(ValueError, match="1000000 characters, at most 512") as failure:
        check_key("k" * 1_000_000)
    assert len(str(failure.value)) < 200


@for_each("prefix, expected", [("", ""), ("a", "a/"), ("a/", "a/"), ("a/b", "a/b/")])
def test_prefix_ends_with_a_slash(prefix: str, expected: str) -> None:
    assert check_prefix(prefix) == expected


@for_each("prefix", ["/", "//", "a//", "..", "../"])
def test_prefix_that_is_no_path_is_refused(prefix: str) -> None:
    with pytest.raises(ValueError, match=r"^key "):
        check_prefix(prefix)


@for_each("start, length", [(-1, 1), (0, 0), (5, -1)])
def test_range_without_bytes_is_refused(start: int, length: int) -> None:
    check_range(0, 1)
    with pytest.raises(ValueError, match="range of 1 byte or more"):
        check_range(start, length)


def test_parts_of_the_announced_size_are_joined() -> None:
    assert joined([b"a", b"", bytearray(b"bc"), memoryview(b"d")], 4) == b"abcd"
    assert joined([], 0) == b""


@for_each("parts, size", [([b"abc"], 2), ([b"abc"], 4), ([], 1), ([b"a"], -1)])
def test_parts_of_another_size_are_refused(parts: list[bytes], size: int) -> None:
    with pytest.raises(ValueError, match="expected parts of"):
        joined(parts, size)


def test_no_part_is_passed_on_beyond_the_size() -> None:
    passed: list[Buffer] = []

    def take(parts: Iterable[Buffer]) -> None:
        passed.extend(counted_parts(parts, 3))

    with pytest.raises(ValueError, match="expected parts of 3 bytes, found more"):
        take(iter([b"ab", b"cd", b"ef"]))
    assert passed == [] or b"".join(passed) == b"ab"


def test_text_of_others_is_one_short_line() -> None:
    assert contract.one_line(" a\n\n b\t" + "c" * 1000) == "a b " + "c" * 296
