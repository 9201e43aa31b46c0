"""`check_cleanup_policy` reports each violation of the policy contract."""

from __future__ import annotations

from typing import Any

import pytest

from kqueue.base.config import TopicConfig
from kqueue.log.policies import POLICIES, Cleanup, CommittedOffsets, Compact, Drop, LogView
from kqueue.records.batch import Record
from kqueue.testing import check_cleanup_policy
from kqueue.tests.tables import for_each


@for_each("name", ["compact", "consumed", "delete"])
def test_built_in_policies_meet_the_contract(name: str) -> None:
    """S5.1, S5.2, S5.4"""
    policy = POLICIES.get(name)
    assert policy.name == name
    check_cleanup_policy(policy)


def has_value(record: Record) -> bool:
    return record.value is not None


class Policy:
    """A policy whose plan is a function of the log."""

    name = "mine"

    def __init__(self, plan: Any, name: str = "mine") -> None:
        self._plan = plan
        self.name = name

    def plan(self, log: LogView, groups: CommittedOffsets, config: TopicConfig, now_ms: int) -> Cleanup | None:
        result: Cleanup | None = self._plan(log)
        return result


def drop_first(log: LogView) -> Drop:
    return Drop(log.segments[0].end_offset, "one at a time", roll_active=True)


@for_each("plan", [lambda log: None, lambda log: Compact(keep=has_value), drop_first, lambda log: Drop(10**9, "all")])
def test_valid_policies_pass(plan: Any) -> None:
    check_cleanup_policy(Policy(plan), isolated=False)


def fail(log: LogView) -> None:
    raise KeyError("no such thing")


class Counting:
    """A filter that changes when it is pickled."""

    sent = False

    def __reduce__(self) -> tuple[Any, ...]:
        return _sent, ()

    def __call__(self, record: Record) -> bool:
        return not self.sent


def _sent() -> Counting:
    filter = Counting()
    filter.sent = True
    return filter


def drop_all_then_fail(log: LogView) -> Drop:
    if log.segments[0].time_ms == 1_700_000_000_000 and log.start_offset > 0:  # the segment was rolled by the drop
        raise LookupError("nothing is left")
    return Drop(10**9, "all", roll_active=True)


COUNT = iter(range(10**9))


@for_each(
    "plan, words",
    [
        (fail, "plan for .* raised KeyError: .no such thing"),
        (lambda log: 5, "its plans are valid.: plan must return Drop, Compact or None, found 5"),
        (lambda log: Drop(-1, "x"), "its plans are valid.: before_offset must not be negative"),
        (lambda log: Drop(1.5, "x"), "before_offset must be an int, found 1.5"),  # type: ignore[arg-type]
        (lambda log: Drop(5, ""), "why must not be empty"),
        (lambda log: Drop(next(COUNT), "x"), "plan gave .* for the same log"),
        (lambda log: Compact(keep=lambda record: True), "its record filter cannot be pickled"),
        (lambda log: Compact(keep=len), "the filter, of .* raised TypeError|the filter must return a bool"),
        (lambda log: Compact(keep=Counting()), "the filter returns True, and False after pickling"),
        (
            lambda log: Drop(5, "x", before_delete=lambda segments: None),
            "its work before a drop cannot be pickled",
        ),
        (lambda log: Drop(5, "x", before_delete="later"), "before_delete must be callable, found 'later'"),  # type: ignore[arg-type]
        (
            drop_all_then_fail,
            "for the logs that its drops leave.: plan for LogView.*active=True.* raised LookupError: nothing is left",
        ),
        (lambda log: Compact(upto_offset="5"), "upto_offset must be an int"),  # type: ignore[arg-type]
    ],
)
def test_violations_are_reported(plan: Any, words: str) -> None:
    with pytest.raises(AssertionError, match=f"^cleanup policy 'mine' .* fails the check \".*({words})"):
        check_cleanup_policy(Policy(plan), isolated=False)


@for_each("name", ["", "Mine", " mine", "a,b"])
def test_invalid_names_are_reported(name: str) -> None:
    with pytest.raises(AssertionError, match="name"):
        check_cleanup_policy(Policy(lambda log: None, name), isolated=False)


def test_topic_settings_are_passed_to_plan() -> None:
    seen = set()

    class Looking:
        name = "looking"

        def plan(self, log: LogView, groups: CommittedOffsets, config: TopicConfig, now_ms: int) -> None:
            seen.add(tuple(config["kqueue.consumed.groups"]))

    check_cleanup_policy(Looking(), settings={"kqueue.consumed.groups": "g3"}, isolated=False)
    assert seen == {("g3",)}
