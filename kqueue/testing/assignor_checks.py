"""Public contract checks for server-side assignors, for the tests of an assignor plugin."""

from __future__ import annotations

import copy
import json
import random
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple

from kqueue.base.sliced_task import run_to_end
from kqueue.groups.assignors.contract import Assignment, Assignor, AssignorFactory, AssignorMember, AssignorTopic
from kqueue.groups.assignors.result_check import InvalidAssignment, check_assignment
from kqueue.testing.contract_checks import Check, Checks, ContractTrial
from kqueue.testing.isolation import check_contract

GROUPS = 200
STEP_MS_MAX = 50
"""Work between two yields, in ms of processor time: other clients wait for it."""
_FactoryTrial = ContractTrial[AssignorFactory]
_RACKS = (None, "a", "b", "c")


class AssignorReport(NamedTuple):
    """The measurements of a valid assignor with groups whose members subscribe to the same topics.

    Attributes:
        kept, kept_after_join, kept_after_leave: share of the partitions that could stay with their
            member and did, from 0 to 1: of an unchanged group, and after a member came or went.
        spread_max: largest difference of the numbers of partitions of two members.
    """

    kept: float
    kept_after_join: float
    kept_after_leave: float
    spread_max: int


class _Group(NamedTuple):
    """The arguments of one call of `assign`."""

    members: list[AssignorMember]
    topics: dict[bytes, AssignorTopic]

    def __str__(self) -> str:
        return f"assign(members={self.members!r:.1000}, topics={list(self.topics.values())!r:.500})"


def check_assignor(
    factory: AssignorFactory | str, *, seed: int = 1, time_limit_s: float = 60, isolated: bool = True
) -> AssignorReport:
    """Check that the assignors of `factory` meet `kqueue.groups.assignors.contract`.

    Args:
        factory: the registered class; or its ``module:object`` path.
        seed: seeds the groups.
        time_limit_s: limit for all checks together, in seconds.
        isolated: False runs the checks in this process, without a time limit, for objects that
            cannot be pickled.
    Returns: how balanced and sticky it is, of which the contract promises nothing.
    Raises:
        AssertionError: a check failed; the message names the check, the call and the result.
        TypeError: `factory` cannot be sent to another process.
    """
    with tempfile.TemporaryDirectory(prefix="kqueue-check-") as folder:
        options: dict[str, Any] = {
            "seed": seed,
            "file": str(Path(folder, "assignments")),
            "report": str(Path(folder, "report")),
        }
        check_contract(ASSIGNOR_CHECKS, factory, options, time_limit_s=time_limit_s, isolated=isolated)
        if isolated:
            check_contract(PROCESS_CHECKS, factory, options, time_limit_s=time_limit_s, isolated=True)
        return AssignorReport(**json.loads(Path(options["report"]).read_text()))


def _check_validity(trial: _FactoryTrial) -> None:
    assignor = _assignor(trial)
    for group in _groups(trial):
        result = _ask(trial, assignor, group)
        try:
            run_to_end(check_assignment(result, {member.member_id: member for member in group.members}, group.topics))
        except InvalidAssignment as error:
            raise AssertionError(f"{error}: {group}") from None


def _check_completeness(trial: _FactoryTrial) -> None:
    assignor = _assignor(trial)
    for group in _groups(trial):
        result = _ask(trial, assignor, group)
        for id, topic in group.topics.items():
            if any(id in member.topics for member in group.members):
                given = {index for assigned in result.values() for index in assigned.get(id, ())}
                missing = sorted(set(range(topic.partition_count)) - given)
                assert not missing, f"partitions {missing!r:.100} of {topic.name!r} have no member: {group}"


def _check_sameness(trial: _FactoryTrial) -> None:
    first, second = _assignor(trial), _assignor(trial)
    for group in _groups(trial):
        before = copy.deepcopy(group)
        one = _comparable(_ask(trial, first, group))
        assert group == before, f"the arguments were changed to {group}, from {before}"
        topics = dict(reversed(group.topics.items()))  # a mapping has no order
        again = _comparable(_ask(trial, second, group._replace(topics=topics)))
        assert one == again, f"the same members and topics gave {one!r:.300} and {again!r:.300} for {group}"


def _check_processes(trial: _FactoryTrial) -> None:
    """Compare assignments between two processes with different hash seeds.

    The first process writes them to a file, the second one compares.
    """
    assignor = _assignor(trial)
    groups = _groups(trial)
    assignments = [_comparable(_ask(trial, assignor, group)) for group in groups]
    file = Path(trial.options["file"])
    if not file.exists():
        file.write_text(json.dumps(assignments))
    for group, assigned, before in zip(groups, assignments, json.loads(file.read_text()), strict=True):
        assert assigned == before, f"{before!r:.300} in one process, {assigned!r:.300} in another, for {group}"


def _check_steps(trial: _FactoryTrial) -> None:
    rng = random.Random(trial.options["seed"])
    topics = _topics(rng, 20, 100)
    for group in (_Group(_members(rng, topics, 200, same=same), topics) for same in (True, False)):
        what = f"assign of {len(group.members)} members and {len(topics)} topics of 100 partitions"
        longest_ms = trial.ask(what, lambda group=group: _longest_step_ms(_assignor(trial), group))  # type: ignore[misc]
        assert longest_ms <= STEP_MS_MAX, (
            f"{what} worked {longest_ms:.0f} ms without a yield, expected {STEP_MS_MAX} ms at most"
        )


def _longest_step_ms(assignor: Assignor, group: _Group) -> float:
    work, longest_s = assignor.assign(*group), 0.0
    while True:
        begun_s = time.thread_time()
        try:
            next(work)
        except StopIteration:
            return 1000 * max(longest_s, time.thread_time() - begun_s)
        longest_s = max(longest_s, time.thread_time() - begun_s)


def _write_report(trial: _FactoryTrial) -> None:
    rng, assignor = random.Random(trial.options["seed"]), _assignor(trial)
    kept = {name: [0, 0] for name in ("kept", "kept_after_join", "kept_after_leave")}
    spread_max = 0
    for _ in range(20):
        topics = _topics(rng, rng.randint(1, 3), 24)
        members = [member._replace(current={}) for member in _members(rng, topics, rng.randint(2, 8), same=True)]
        result = _ask(trial, assignor, _Group(members, topics))
        settled = [member._replace(current=_current(result, member)) for member in members]
        loads = [sum(map(len, result.get(member.member_id, {}).values())) for member in members]
        spread_max = max(spread_max, max(loads) - min(loads))
        joined = AssignorMember("new", None, None, frozenset(topics), {})
        for name, group in (
            ("kept", settled),
            ("kept_after_join", sorted([*settled, joined])),
            ("kept_after_leave", settled[1:]),
        ):
            after = _ask(trial, assignor, _Group(group, topics))
            total = sum(topic.partition_count for topic in topics.values())
            could = sum(len(indexes) for member in group for indexes in member.current.values())
            kept[name][1] += min(could, total - total // len(group)) if joined in group else could
            for member in group:
                had = {(id, index) for id, indexes in member.current.items() for index in indexes}
                has = {(id, index) for id, indexes in after.get(member.member_id, {}).items() for index in indexes}
                kept[name][0] += len(had & has)
    shares = {name: min(1.0, same / could) if could else 1.0 for name, (same, could) in kept.items()}
    Path(trial.options["report"]).write_text(json.dumps({**shares, "spread_max": spread_max}))


def _current(result: Assignment, member: AssignorMember) -> dict[bytes, frozenset[int]]:
    return {id: frozenset(indexes) for id, indexes in result.get(member.member_id, {}).items()}


def _comparable(result: Assignment) -> dict[str, dict[str, list[int]]]:
    """Return an assignment without empty entries, in an order, as JSON has it."""
    return {
        member_id: topics
        for member_id, assigned in sorted(result.items())
        if (topics := {id.hex(): sorted(indexes) for id, indexes in sorted(assigned.items()) if indexes})
    }


def _assignor(trial: _FactoryTrial) -> Assignor:
    what = "the factory, called without arguments,"
    assignor = trial.ask(what, lambda: trial.plugin())
    assert callable(getattr(assignor, "assign", None)), f"{what} gave {assignor!r:.200}, which has no assign()"
    return assignor


def _ask(trial: _FactoryTrial, assignor: Assignor, group: _Group) -> Assignment:
    def run() -> Assignment:
        work = assignor.assign(*group)
        assert isinstance(work, Generator), f"assign returned {type(work).__name__}, expected a generator: {group}"
        while True:
            try:
                yielded = next(work)
            except StopIteration as end:
                result: Assignment = end.value
                return result
            assert yielded is None, f"assign yielded {yielded!r:.100}, expected None: {group}"

    return trial.ask(str(group), run)


def _groups(trial: _FactoryTrial) -> list[_Group]:
    rng = random.Random(trial.options["seed"])
    groups = [_Group([], {})]
    while len(groups) < GROUPS:
        topics = _topics(rng, rng.randint(1, 4), 12)
        members = _members(rng, topics, rng.randint(1, 7), same=rng.random() < 0.5)
        named = frozenset().union(*(member.topics for member in members))
        groups.append(_Group(members, {id: topic for id, topic in topics.items() if id in named}))
    return groups


def _topics(rng: random.Random, count: int, partitions_max: int) -> dict[bytes, AssignorTopic]:
    topics = {}
    for number in range(count):
        id, partitions = rng.randbytes(16), rng.randint(0, partitions_max)
        racks = tuple(tuple(rng.sample("abc", rng.randint(1, 3))) for _ in range(partitions))
        topics[id] = AssignorTopic(id, f"t{number}", partitions, rng.choice((racks, ())))
    return topics


def _members(rng: random.Random, topics: dict[bytes, AssignorTopic], count: int, *, same: bool) -> list[AssignorMember]:
    """Return members, whose current partitions are shared out at random; some do not exist."""
    current: list[dict[bytes, set[int]]] = [{} for _ in range(count)]
    for id, topic in topics.items():
        for index in range(topic.partition_count + 2):
            if rng.random() < 0.7:
                rng.choice(current).setdefault(id, set()).add(index)
    ids = list(topics)
    members = []
    for number, owned in enumerate(current):
        topics_of_member = ids if same else rng.sample(ids, rng.randint(0, len(ids)))
        instance_id = rng.choice((None, f"instance-{count - number}"))
        held = {id: frozenset(indexes) for id, indexes in owned.items()}
        members.append(
            AssignorMember(f"m{number:03}", instance_id, rng.choice(_RACKS), frozenset(topics_of_member), held)
        )
    return members


_PROCESSES = Check("the same members and topics give the same assignment in every process", _check_processes)
PROCESS_CHECKS = Checks("assignor", (_PROCESSES,))
ASSIGNOR_CHECKS = Checks(
    "assignor",
    (
        Check("it gives each partition to one subscriber at most", _check_validity),
        Check("it gives each partition of a topic with subscribers to a member", _check_completeness),
        Check("the same members and topics give the same assignment, and stay unchanged", _check_sameness),
        _PROCESSES,
        Check(f"it yields at least every {STEP_MS_MAX} ms of work", _check_steps),
        Check("it assigns partitions of groups that grow and shrink", _write_report),
    ),
)
