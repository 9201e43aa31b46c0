from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from kqueue.base.sliced_task import run_to_end
from kqueue.groups.assignors import AssignorMember, AssignorTopic
from kqueue.groups.assignors.result_check import InvalidAssignment, check_assignment
from kqueue.tests.groups.assignors.drawn_groups import IDS, assign, groups
from kqueue.tests.tables import for_each

T, U, GONE = IDS[:3]
TOPICS = {T: AssignorTopic(T, "t", 3), U: AssignorTopic(U, "u", 3)}
MEMBERS = {
    "m": AssignorMember("m", None, None, frozenset({T, U}), {}),
    "n": AssignorMember("n", None, None, frozenset({T}), {}),
}


def test_members_topics_and_partitions_may_be_left_out() -> None:
    for result in ({}, {"m": {}}, {"m": {T: []}, "n": {T: [2, 0]}}):
        run_to_end(check_assignment(result, MEMBERS, TOPICS))


@for_each(
    "result, words",
    [
        (None, "returned NoneType, expected a dict"),
        ([("m", {})], "returned list"),
        ({"x": {}}, "'x', who is no member"),
        ({7: {}}, "7, who is no member"),
        ({"m": [T]}, "'m' got list"),
        ({"n": {U: [0]}}, "'n' a topic to which it does not subscribe"),
        ({"m": {GONE: [0]}}, "does not subscribe"),
        ({"m": {T: (0,)}}, "partitions of 't' are tuple, expected a list"),
        ({"m": {T: [3]}}, "no partition 3, expected an int from 0 to 2"),
        ({"m": {T: [-1]}}, "no partition -1"),
        ({"m": {T: ["0"]}}, "no partition '0'"),
        ({"m": {T: [1.0]}}, "no partition 1.0"),
        ({"m": {T: [True]}}, "no partition True"),
        ({"m": {T: [1, 1]}}, "partition 1 of 't' twice"),
        ({"m": {T: [1]}, "n": {T: [1]}}, "partition 1 of 't' twice"),
    ],
)
def test_other_results_are_refused(result: Any, words: str) -> None:
    with pytest.raises(InvalidAssignment, match=words):
        run_to_end(check_assignment(result, MEMBERS, TOPICS))


@given(group=groups())
def test_built_ins_return_what_they_should(group: tuple[list[AssignorMember], dict[bytes, AssignorTopic]]) -> None:
    members, topics = group
    for name in ("uniform", "range"):
        result = assign(name, members, topics)
        run_to_end(check_assignment(result, {member.member_id: member for member in members}, topics))
