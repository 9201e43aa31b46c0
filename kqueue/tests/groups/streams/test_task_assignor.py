from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import hypothesis.strategies as st
from hypothesis import given, settings

from kqueue.base.sliced_task import run_to_end
from kqueue.groups.streams.member import SubtopologyRole, TaskAssignment, TaskRole
from kqueue.groups.streams.task_assignor import TaskGroup, TaskMember, assign_tasks
from kqueue.tests.thorough import examples

Result = dict[str, dict[SubtopologyRole, set[int]]]


def assigned(
    processes: Mapping[str, str],
    counts: Mapping[str, int],
    former: Mapping[str, TaskAssignment] | None = None,
    stateful: frozenset[str] = frozenset(),
    replicas: int = 0,
) -> Result:
    """`processes`: member id -> process id."""
    members = [TaskMember(name, process, (former or {}).get(name, {})) for name, process in sorted(processes.items())]
    result: Result = run_to_end(assign_tasks(TaskGroup(members, counts, stateful, replicas)))
    return result


def loads(result: Result, role: TaskRole) -> dict[str, int]:
    return {name: sum(len(tasks) for key, tasks in roles.items() if key.role is role) for name, roles in result.items()}


def frozen(result: Result) -> dict[str, TaskAssignment]:
    return {name: {key: frozenset(tasks) for key, tasks in roles.items()} for name, roles in result.items()}


def test_an_empty_group_has_no_tasks() -> None:
    assert assigned({}, {"0": 3}) == {}
    assert assigned({"m": "p"}, {}) == {"m": {}}


def test_a_member_keeps_its_tasks_as_others_come_and_go() -> None:
    one = assigned({"m": "p"}, {"0": 4})
    two = assigned({"m": "p", "n": "q"}, {"0": 4}, frozen(one))
    assert loads(two, TaskRole.ACTIVE) == {"m": 2, "n": 2}
    again = assigned({"m": "p", "n": "q"}, {"0": 4}, frozen(two))
    assert again == two
    alone = assigned({"n": "q"}, {"0": 4}, frozen(two))
    assert loads(alone, TaskRole.ACTIVE) == {"n": 4}


def test_a_copy_of_the_state_takes_over() -> None:
    counts, stateful = {"0": 6}, frozenset({"0"})
    processes = {"m": "p", "n": "q", "o": "r"}
    before = assigned(processes, counts, None, stateful, 1)
    del processes["o"]
    after = assigned(processes, counts, frozen(before), stateful, 1)
    key = SubtopologyRole(TaskRole.STANDBY, "0")
    lost = before["o"][SubtopologyRole(TaskRole.ACTIVE, "0")]
    for name in processes:
        for task in before[name].get(key, set()) & lost:
            assert task in after[name][SubtopologyRole(TaskRole.ACTIVE, "0")]


PROCESSES = st.lists(st.sampled_from("pqrs"), min_size=1, max_size=9)
COUNTS = st.dictionaries(st.sampled_from("0123"), st.integers(1, 7), max_size=4)


@settings(max_examples=examples(150), deadline=None)
@given(first=PROCESSES, second=PROCESSES, counts=COUNTS, replicas=st.integers(0, 2))
def test_tasks_are_balanced_and_copies_are_elsewhere(
    first: list[str], second: list[str], counts: dict[str, int], replicas: int
) -> None:
    stateful = frozenset("02")
    former: Mapping[str, TaskAssignment] = {}
    for names in (first, second):
        processes = {f"m{number}": process for number, process in enumerate(names)}
        result = assigned(processes, counts, former, stateful, replicas)
        active = loads(result, TaskRole.ACTIVE)
        assert max(active.values()) - min(active.values()) <= 1
        by_task: Counter[tuple[str, int]] = Counter()
        where: set[tuple[str, int, str]] = set()
        for name, roles in result.items():
            for key, tasks in roles.items():
                for task in tasks:
                    if key.role is TaskRole.STANDBY:
                        by_task[key.subtopology, task] += 1
                        assert key.subtopology in stateful
                    place = key.subtopology, task, processes[name]
                    assert place not in where, "a process has a task once"
                    where.add(place)
        owners = [
            (key.subtopology, task)
            for roles in result.values()
            for key, tasks in roles.items()
            if key.role is TaskRole.ACTIVE
            for task in tasks
        ]
        assert sorted(owners) == sorted((one, task) for one, count in counts.items() for task in range(count))
        copies = min(replicas, len(set(names)) - 1)
        assert by_task == Counter(
            {(one, task): copies for one in counts if one in stateful for task in range(counts[one]) if copies}
        )
        former = frozen(result)


def test_the_same_members_keep_all_their_tasks() -> None:
    processes = {f"m{number}": f"p{number % 3}" for number in range(7)}
    counts, stateful = {"0": 13, "1": 5}, frozenset({"1"})
    before = assigned(processes, counts, None, stateful, 2)
    assert assigned(processes, counts, frozen(before), stateful, 2) == before
