"""The assignor `simple`: everybody reads, everything is read, evenly and with few changes."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from kqueue.groups.share.simple_assignor import assign

T, U = b"\1" * 16, b"\2" * 16
MEMBERS = st.integers(1, 12)
COUNTS = st.integers(1, 12)


def members(count: int) -> dict[str, frozenset[bytes]]:
    return {f"m{number:02}": frozenset({T}) for number in range(count)}


@given(first=MEMBERS, then=MEMBERS, count=COUNTS, more=st.integers(0, 5))
def test_everybody_reads_and_everything_is_read(first: int, then: int, count: int, more: int) -> None:
    current = assign(members(first), {T: range(count)}, {})
    result = assign(members(then), {T: range(count + more)}, current)
    parts = [result[member][T] for member in members(then)]
    assert all(parts)
    assert frozenset().union(*parts) == frozenset(range(count + more))
    if then <= count + more:
        assert sum(map(len, parts)) == count + more, "each partition has one member"
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


@given(count=MEMBERS, partitions=COUNTS)
def test_nothing_changes_without_a_reason(count: int, partitions: int) -> None:
    result = assign(members(count), {T: range(partitions)}, {})
    assert assign(members(count), {T: range(partitions)}, result) == result


def test_members_read_what_they_subscribe_to() -> None:
    result = assign({"a": frozenset({T}), "b": frozenset({T, U}), "c": frozenset()}, {T: [0, 1], U: [0]}, {})
    assert result["c"] == {}
    assert result["b"][U] == {0}
    assert result["a"][T] | result["b"][T] == {0, 1}
    assert assign({}, {T: [0]}, {}) == {}
