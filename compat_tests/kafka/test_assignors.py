"""The server-side assignors beside those of Kafka, on the same groups: of members that come and go,
topics that grow, static members, racks, and different subscriptions.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from compat_tests.kafka.tool_host import ToolHost
from kqueue.base.names import uuid_text
from kqueue.base.sliced_task import run_to_end
from kqueue.groups.assignors import ASSIGNORS, AssignorMember, AssignorTopic

SEEDS = 60
STEPS = 10
Assigned = dict[str, dict[bytes, frozenset[int]]]


class Case(NamedTuple):
    """A group, and what kqueue's assignor makes of it."""

    members: list[AssignorMember]
    topics: dict[bytes, AssignorTopic]
    ours: Assigned

    def __str__(self) -> str:
        rows = [
            f"topic {uuid_text(id)} {topic.partition_count} {','.join(map('+'.join, topic.racks)) or '-'}"
            for id, topic in self.topics.items()
        ]
        for member in self.members:
            topics = ",".join(map(uuid_text, sorted(member.topics))) or "-"
            words = (member.member_id, member.instance_id or "-", member.rack_id or "-", topics, text(member.current))
            rows.append(f"member {' '.join(words)}")
        return "\n".join(rows)

    def moved(self, assigned: Assigned) -> int:
        """How many partitions leave the member that has them."""
        return sum(
            len({index for index in indexes if index < self.topics[id].partition_count} - has.get(id, frozenset()))
            for member in self.members
            for has in (assigned[member.member_id],)
            for id, indexes in member.current.items()
            if id in member.topics and id in self.topics
        )

    def loads(self, assigned: Assigned) -> list[int]:
        return sorted(sum(map(len, assigned[member.member_id].values())) for member in self.members)


def text(assigned: Mapping[bytes, frozenset[int]]) -> str:
    return ",".join(f"{uuid_text(id)}={'+'.join(map(str, sorted(one)))}" for id, one in assigned.items() if one) or "-"


def assign(name: str, members: list[AssignorMember], topics: dict[bytes, AssignorTopic]) -> Assigned:
    result = run_to_end(ASSIGNORS.get(name)().assign(members, topics))
    return {
        member.member_id: {
            id: frozenset(indexes) for id, indexes in result.get(member.member_id, {}).items() if indexes
        }
        for member in members
    }


def cases(name: str, *, same: bool) -> Iterator[Case]:
    """Groups that begin with any members and topics, and change step by step."""
    for seed in range(SEEDS):
        rng = random.Random(seed)
        ids = [rng.randbytes(16) for _ in range(rng.randint(1, 5))]
        counts = {id: rng.randint(1, 12) for id in ids}
        racks = rng.random() < 0.5
        members: list[AssignorMember] = []
        for step in range(STEPS):
            if members and rng.random() < 0.4:
                members.pop(rng.randrange(len(members)))
            for number in range(rng.randint(1 - bool(members), 3)):
                instance_id = f"i{rng.randrange(10**6)}" if rng.random() < 0.3 else None
                topics = frozenset(ids if same else rng.sample(ids, rng.randint(1, len(ids))))
                rack = rng.choice("abc") if racks else None
                members.append(AssignorMember(f"m{step:02}{number}{seed}", instance_id, rack, topics, {}))
            if rng.random() < 0.3:
                counts[rng.choice(ids)] += rng.randint(1, 4)
            members.sort()
            named = frozenset().union(*(member.topics for member in members))
            described = {
                id: AssignorTopic(
                    id, uuid_text(id), counts[id], tuple(tuple("abc"[index % 3]) for index in range(counts[id] * racks))
                )
                for id in ids
                if id in named
            }
            ours = assign(name, members, described)
            yield Case(list(members), described, ours)
            members = [member._replace(current=ours[member.member_id]) for member in members]


def of_kafka(tools: ToolHost, file: Path, name: str, groups: list[Case]) -> list[Assigned]:
    """What Kafka's assignor makes of the groups."""
    file.write_text("".join(f"group {name}\n{case}\nend\n" for case in groups))
    done = tools.run("Assignors", file)
    assert done.status == 0, done.stderr
    assignments = []
    for case, rows in zip(groups, done.stdout.split("end\n"), strict=False):
        ids = {uuid_text(id): id for id in case.topics}
        assigned: Assigned = {}
        for row in rows.splitlines():
            member_id, _, words = row.partition(" ")
            assigned[member_id] = {
                ids[id]: frozenset(map(int, indexes.split("+")))
                for id, _, indexes in (entry.rpartition("=") for entry in words.split(",") if entry != "-")
            }
        assignments.append(assigned)
    assert len(assignments) == len(groups)
    return assignments


@pytest.mark.parametrize("same", [True, False])
def test_range_assigns_as_kafka_does(tools: ToolHost, tmp_path: Path, same: bool) -> None:
    groups = list(cases("range", same=same))
    for case, theirs in zip(groups, of_kafka(tools, tmp_path / "groups", "range", groups), strict=True):
        assert case.ours == theirs, str(case)


@pytest.mark.parametrize("same", [True, False])
def test_uniform_is_as_balanced_and_sticky_as_kafkas(tools: ToolHost, tmp_path: Path, same: bool) -> None:
    """The same numbers of partitions where all members subscribe to the same topics.

    Where they do not, both look for moves between two members only, and differ now and then.
    """
    groups = list(cases("uniform", same=same))
    moved = [0, 0]
    squares: tuple[list[int], list[int]] = ([], [])
    for case, theirs in zip(groups, of_kafka(tools, tmp_path / "groups", "uniform", groups), strict=True):
        ours = case.loads(case.ours)
        moved[0] += case.moved(case.ours)
        moved[1] += case.moved(theirs)
        if same:
            assert ours == case.loads(theirs), str(case)
            assert case.moved(case.ours) <= case.moved(theirs), str(case)
        for sums, assigned in zip(squares, (case.ours, theirs), strict=True):
            sums.append(sum(load * load for load in case.loads(assigned)))
    ours_worse = sum(one > other for one, other in zip(*squares, strict=True))
    theirs_worse = sum(one < other for one, other in zip(*squares, strict=True))
    print(f"{len(groups)} steps; moved: {moved}; less balanced: kqueue {ours_worse}, Kafka {theirs_worse}")
    assert sum(squares[0]) <= sum(squares[1]) * 1.002
    assert moved[0] <= moved[1] * 1.06
