from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kqueue_assignor_weighted import WEIGHT_MAX, WeightedAssignor, weight_of

from kqueue.base.sliced_task import run_to_end
from kqueue.groups.assignors import ASSIGNORS, AssignorMember, AssignorTopic
from kqueue.testing import check_assignor

T = b"t".rjust(16)


def member(number: int, weight: int | None = None, current: frozenset[int] = frozenset()) -> AssignorMember:
    instance_id = None if weight is None else f"i{number}*{weight}"
    return AssignorMember(f"m{number:02}", instance_id, None, frozenset({T}), {T: current})


def assign(members: list[AssignorMember], count: int) -> list[frozenset[int]]:
    assignment: Any = run_to_end(WeightedAssignor().assign(members, {T: AssignorTopic(T, "t", count)}))
    return [frozenset(assignment[one.member_id].get(T, ())) for one in members]


def test_weighted_assignor_keeps_the_contract() -> None:
    report = check_assignor(WeightedAssignor)
    assert (report.kept, report.spread_max) == (1.0, 1)
    assert min(report.kept_after_join, report.kept_after_leave) > 0.97  # of several topics


def test_weighted_assignor_is_found_by_name() -> None:
    assert run_to_end(ASSIGNORS.get("weighted")().assign([], {})) == {}


@pytest.mark.parametrize(
    ("instance_id", "weight"),
    [
        (None, 1),
        ("mill-1", 1),
        ("mill-1*3", 3),
        ("*12", 12),
        ("3*", 1),
        ("2*x3", 1),
        ("a*0", 1),
        ("a*9999", WEIGHT_MAX),
    ],
)
def test_the_weight_is_at_the_end_of_the_instance_id(instance_id: str | None, weight: int) -> None:
    assert weight_of(AssignorMember("m", instance_id, None, frozenset(), {})) == weight


def test_members_get_partitions_by_their_weights() -> None:
    assert [len(owned) for owned in assign([member(0, 3), member(1, 1), member(2, 2)], 12)] == [6, 2, 4]
    assert [len(owned) for owned in assign([member(0), member(1, 5)], 12)] == [2, 10]


@given(weights=st.lists(st.integers(1, 5), min_size=1, max_size=8), count=st.integers(0, 60))
@settings(deadline=None)
def test_no_partition_is_better_with_another_member(weights: list[int], count: int) -> None:
    """Moving one never makes the fullest of two members less full."""
    loads = [len(owned) for owned in assign([member(*row) for row in enumerate(weights)], count)]
    assert sum(loads) == count
    for giver, giver_weight in zip(loads, weights, strict=True):
        for taker, taker_weight in zip(loads, weights, strict=True):
            assert giver / giver_weight <= (taker + 1) / taker_weight + 1e-9


@given(weights=st.lists(st.integers(1, 5), min_size=2, max_size=8), count=st.integers(0, 60), leaves=st.integers(0, 7))
@settings(deadline=None)
def test_joining_or_leaving_member_moves_no_other_partitions(weights: list[int], count: int, leaves: int) -> None:
    owned = assign([member(*row) for row in enumerate(weights)], count)
    settled = [member(number, weight, had) for number, (weight, had) in enumerate(zip(weights, owned, strict=True))]
    assert assign(settled, count) == owned
    less = [one for number, one in enumerate(settled) if number != leaves % len(settled)]
    assert all(one.current[T] <= has for one, has in zip(less, assign(less, count), strict=True))
    after = assign([*settled, member(99, 2)], count)
    assert all(has <= had for had, has in zip(owned, after[:-1], strict=True))
