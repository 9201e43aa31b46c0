"""`check_assignor` reports each violation of the assignor contract."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from kqueue.groups.assignors import AssignorMember
from kqueue.groups.assignors.range import RangeAssignor
from kqueue.groups.assignors.uniform import UniformAssignor
from kqueue.testing import check_assignor
from kqueue.tests.groups.assignors.plugins import FirstTakesAll
from kqueue.tests.tables import for_each


def test_built_ins_pass_and_are_reported() -> None:
    uniform = check_assignor(UniformAssignor)
    assert uniform == (1.0, 1.0, 1.0, 1)
    ranges = check_assignor("kqueue.groups.assignors.range:RangeAssignor", isolated=False)
    assert ranges.kept == 1.0
    assert ranges.kept_after_leave < 1
    assert ranges.spread_max > 1


def changed(change: Callable[[list[AssignorMember], dict[str, Any]], Any]) -> type[RangeAssignor]:
    """Return an assignor whose valid result is changed by `change(members, result)`."""

    class Changed(RangeAssignor):
        def assign(self, members: Any, topics: Any) -> Any:
            result = yield from super().assign(members, topics)
            return change(members, result)

    return Changed


def twice(members: list[AssignorMember], result: dict[str, Any]) -> Any:
    return {name: {id: [*indexes, *indexes] for id, indexes in assigned.items()} for name, assigned in result.items()}


def cleared(members: list[AssignorMember], result: dict[str, Any]) -> Any:
    if members:
        members.append(members[0])
    return result


def slow(members: list[AssignorMember], result: dict[str, Any]) -> Any:
    end_s = time.thread_time() + (0.06 if len(members) > 100 else 0)
    while time.thread_time() < end_s:
        pass
    return result


class Counting(RangeAssignor):
    def assign(self, members: Any, topics: Any) -> Any:
        yield 5
        return (yield from super().assign(members, topics))


class Plain:
    def assign(self, members: Any, topics: Any) -> Any:
        return {}


BROKEN = {
    "to one subscriber at most.*: it gave partition": changed(twice),
    "it returned NoneType": changed(lambda members, result: None),
    r"assign\(members=\[\], .*\) raised ZeroDivisionError": changed(lambda members, result: 1 // 0),
    "partitions .* of 't.*' have no member": changed(lambda members, result: {}),
    "the arguments were changed to": changed(cleared),
    "worked .* ms without a yield, expected 50": changed(slow),
    "yielded 5, expected None": Counting,
    "returned dict, expected a generator": Plain,
    "gave <object .*which has no assign": object,
}


@for_each("words, factory", BROKEN.items())
def test_violations_are_reported(words: str, factory: Any) -> None:
    with pytest.raises(AssertionError, match=f"(?s)^assignor '.*' .* fails the check \".*{words}"):
        check_assignor(factory, isolated=False)


def test_an_assignor_that_draws_lots_is_reported() -> None:
    class Lots(FirstTakesAll):
        def assign(self, members: Any, topics: Any) -> Any:
            return super().assign(random.sample(members, len(members)), topics)

    with pytest.raises(AssertionError, match="the same members and topics gave"):
        check_assignor(Lots, isolated=False)


class ByHash(FirstTakesAll):
    """Orders members by Python's hash, which differs between processes."""

    def assign(self, members: Any, topics: Any) -> Any:
        return super().assign(sorted(members, key=lambda member: hash(member.member_id)), topics)


@pytest.mark.long
def test_an_assignor_that_uses_python_hashes_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "5")
    with pytest.raises(AssertionError, match="in every process.* in one process"):
        check_assignor(ByHash)
