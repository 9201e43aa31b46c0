"""The sticky assignor of tasks: balanced, and state is moved as little as possible.

Active tasks: members have as many as each other, or one more. A member keeps what it had, up to
that number. What is left goes to a member with a copy of the task's state, else to the process with
the fewest tasks per member.
Standby tasks: on processes without the task; those that have a copy of the state come first, unless
they have more than their share.
Source: KIP-1071; the rules are those of Kafka's StickyTaskAssignor, the code and ties are not.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple

from kqueue.groups.streams.member import SubtopologyRole, TaskAssignment, TaskRole

Task = tuple[str, int]
"""Subtopology id and index."""
TaskWork = Generator[None, None, dict[str, dict[SubtopologyRole, set[int]]]]


class TaskMember(NamedTuple):
    """A member, with its target assignment so far."""

    member_id: str
    process_id: str
    assigned: TaskAssignment


class TaskGroup(NamedTuple):
    """The tasks that are to be assigned, and the members.

    Attributes:
        task_counts: subtopology id -> number of its tasks.
        stateful: the subtopologies that have standby tasks.
        standby_replicas: standby tasks of each task, as far as there are processes.
    """

    members: Sequence[TaskMember]
    task_counts: Mapping[str, int]
    stateful: frozenset[str]
    standby_replicas: int = 0


def assign_tasks(group: TaskGroup) -> TaskWork:
    """Return member id -> tasks by role; yields after each task."""
    if not group.members:
        return {}
    return (yield from _Assignment(group).run())


class _LeastLoaded:
    """Names by load, with the least loaded one first; a load only grows."""

    def __init__(self, names: Sequence[str], load_of: Callable[[str], float]) -> None:
        self._load_of = load_of
        self._heap = [(load_of(name), name) for name in names]
        heapq.heapify(self._heap)

    def pop(self) -> str | None:
        """Take the least loaded name out; None: there is none."""
        while self._heap:
            load, name = heapq.heappop(self._heap)
            now = self._load_of(name)
            if now == load:
                return name
            heapq.heappush(self._heap, (now, name))
        return None

    def push(self, name: str) -> None:
        """Put a name in again."""
        heapq.heappush(self._heap, (self._load_of(name), name))


class _Assignment:
    """One computation. `owned` grows to the result."""

    def __init__(self, group: TaskGroup) -> None:
        self.group = group
        self.members = {member.member_id: member for member in group.members}
        self.owned: dict[str, dict[SubtopologyRole, set[int]]] = {name: {} for name in self.members}
        self.loads = dict.fromkeys(self.members, 0)
        self.threads: dict[str, list[str]] = {}
        for name, member in self.members.items():
            self.threads.setdefault(member.process_id, []).append(name)
        self.process_loads = dict.fromkeys(self.threads, 0)
        self.processes_of: dict[Task, set[str]] = {}
        self.least_members = {
            process: _LeastLoaded(names, self.loads.__getitem__) for process, names in self.threads.items()
        }
        self.copies: dict[Task, list[str]] = {}
        """The members that have state of a task."""

    def run(self) -> TaskWork:
        """Return the assignment."""
        counts = self.group.task_counts
        tasks = [(one, index) for one in sorted(counts) for index in range(counts[one])]
        yield from self._note_copies()
        yield from self._assign_active(tasks)
        replicas = min(self.group.standby_replicas, len(self.threads) - 1)
        if replicas > 0:
            yield from self._assign_standby([task for task in tasks if task[0] in self.group.stateful], replicas)
        return self.owned

    def _note_copies(self) -> Generator[None, None, None]:
        for role in (TaskRole.STANDBY, TaskRole.ACTIVE, TaskRole.WARMUP):
            for name, member in self.members.items():
                for key, indexes in member.assigned.items():
                    if key.role is role:
                        for index in indexes:
                            self.copies.setdefault((key.subtopology, index), []).append(name)
                yield None

    # --- active tasks

    def _assign_active(self, tasks: Sequence[Task]) -> Generator[None, None, None]:
        share, extra = divmod(len(tasks), len(self.members))
        left = dict.fromkeys(tasks)
        for name, member in self.members.items():
            former = [task for task in _active(member) if task in left]
            quota = share + (1 if extra and len(former) > share else 0)
            extra -= quota - share
            for task in former[:quota]:
                del left[task]
                self._give(name, TaskRole.ACTIVE, task)
            yield None
        rest: list[Task] = []
        for task in left:
            candidates = [name for name in self.copies.get(task, ()) if self.loads[name] < share + (extra > 0)]
            if not candidates:
                rest.append(task)
                continue
            name = min(candidates, key=self.loads.__getitem__)
            extra -= self.loads[name] == share
            self._give(name, TaskRole.ACTIVE, task)
            yield None
        least = _LeastLoaded(list(self.threads), self._process_load)
        for task in rest:
            extra = self._give_least_loaded(least, task, share, extra)
            yield None

    def _give_least_loaded(self, least: _LeastLoaded, task: Task, share: int, extra: int) -> int:
        """Give a task to the process with the fewest tasks per member. Returns: what is left of
        `extra`, the number of members that have one more.
        """
        while True:
            process = least.pop()
            assert process is not None, "the quotas of all members are the number of tasks"
            name = self.least_members[process].pop()
            if name is None:
                continue
            if self.loads[name] >= share + (extra > 0):
                continue  # so have all members of the process: none has less
            extra -= self.loads[name] == share
            self._give(name, TaskRole.ACTIVE, task)
            self.least_members[process].push(name)
            least.push(process)
            return extra

    # --- standby tasks

    def _assign_standby(self, tasks: Sequence[Task], replicas: int) -> Generator[None, None, None]:
        total = sum(self.loads.values()) + len(tasks) * replicas
        share = -(-total // len(self.members))
        for process, names in self.threads.items():
            self.least_members[process] = _LeastLoaded(names, self.loads.__getitem__)
        least = _LeastLoaded(list(self.threads), self._process_load)
        for task in tasks:
            missing = replicas
            for name in self.copies.get(task, ()):
                process = self.members[name].process_id
                if missing and process not in self.processes_of[task] and self.loads[name] < share:
                    self._give(name, TaskRole.STANDBY, task)
                    missing -= 1
            if missing:
                self._give_standby(least, task, missing)
            yield None

    def _give_standby(self, least: _LeastLoaded, task: Task, count: int) -> None:
        popped = []
        while count and (process := least.pop()) is not None:
            popped.append(process)
            if process in self.processes_of[task]:
                continue
            name = self.least_members[process].pop()
            assert name is not None, "a process has members, and each is put back"
            self._give(name, TaskRole.STANDBY, task)
            self.least_members[process].push(name)
            count -= 1
        for process in popped:
            least.push(process)

    # --- both

    def _process_load(self, process: str) -> float:
        return self.process_loads[process] / len(self.threads[process])

    def _give(self, name: str, role: TaskRole, task: Task) -> None:
        subtopology, index = task
        process = self.members[name].process_id
        self.owned[name].setdefault(SubtopologyRole(role, subtopology), set()).add(index)
        self.loads[name] += 1
        self.process_loads[process] += 1
        self.processes_of.setdefault(task, set()).add(process)


def _active(member: TaskMember) -> list[Task]:
    """Return the active tasks so far, those of all subtopologies in turn: what a member keeps of
    them is a part of each, so that tasks with state do not gather on one member.
    """
    tasks = [
        (key.subtopology, index)
        for key, indexes in member.assigned.items()
        if key.role is TaskRole.ACTIVE
        for index in indexes
    ]
    return sorted(tasks, key=lambda task: (task[1], task[0]))
