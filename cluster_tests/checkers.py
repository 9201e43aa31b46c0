"""What must hold of a history: pure functions of what clients and brokers said.

Each returns violations as sentences, none if all is well.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

Place = tuple[int, int]
"""Partition and offset."""
SHOWN = 5


class Entry(NamedTuple):
    """A record as a consumer got it."""

    partition: int
    offset: int
    value: str

    @property
    def place(self) -> Place:
        return self.partition, self.offset


class LeaderSeen(NamedTuple):
    """What one broker answered about a partition. Epoch and leader: -1: none."""

    broker: int
    partition: str
    epoch: int
    leader: int


class GroupEvent(NamedTuple):
    """A commit that was confirmed, or the committed offset at which a member began.

    `began_s`, `ended_s`: of the request, by one clock. `offset`: -1: nothing was committed.
    """

    kind: str  # "commit" or "begin"
    partition: int
    offset: int
    began_s: float
    ended_s: float


def lost(acknowledged: Mapping[Place, str], anywhere: Iterable[str], log: Iterable[Entry]) -> list[str]:
    """No acknowledged record is missing, and each is where the broker said.

    Args: anywhere: values that were acknowledged without an offset.
    """
    logged = {entry.place: entry.value for entry in log}
    values = set(logged.values())
    missing = [
        f"{value} was acknowledged at {place}, where the log has {logged.get(place, 'nothing')}"
        for place, value in acknowledged.items()
        if logged.get(place) != value
    ]
    return _some(
        [*missing, *(f"{value} was acknowledged, and is nowhere" for value in anywhere if value not in values)]
    )


def doubled(log: Iterable[Entry]) -> list[str]:
    """No value is in the log twice."""
    places: dict[str, list[Place]] = defaultdict(list)
    for entry in log:
        places[entry.value].append(entry.place)
    return _some(f"{value} is there {len(all_)} times: {all_}" for value, all_ in places.items() if len(all_) > 1)


def disordered(log: Iterable[Entry]) -> list[str]:
    """The values of each sender, written SENDER:NUMBER, ascend within a partition."""
    last: dict[tuple[int, str], int] = {}
    violations = []
    for entry in sorted(log):
        sender, number = entry.value.rsplit(":", 1)
        before = last.get((entry.partition, sender), -1)
        if int(number) <= before:
            violations.append(f"{entry.value} comes after {sender}:{before} at {entry.place}")
        last[entry.partition, sender] = int(number)
    return _some(violations)


def unrepeatable(readers: Iterable[Sequence[Entry]], log: Iterable[Entry], *, gone: bool = False) -> list[str]:
    """Each reader goes forward, and what it has read is in the log in the end.

    Args: gone: records may have been removed since, by compaction.
    """
    final = {entry.place: entry.value for entry in log}
    violations = []
    for reader in readers:
        last: dict[int, int] = {}
        for entry in reader:
            if entry.offset <= last.get(entry.partition, -1):
                violations.append(f"{entry.place} was read after offset {last[entry.partition]}")
            last[entry.partition] = entry.offset
            now = final.get(entry.place)
            if now != entry.value and not (gone and now is None):
                violations.append(f"{entry.value} was read at {entry.place}, where the log has {now or 'nothing'}")
    return _some(violations)


def contested(seen: Iterable[LeaderSeen]) -> list[str]:
    """Each epoch of a partition has one leader, and no broker goes back to an older epoch."""
    leaders: dict[tuple[str, int], int] = {}
    newest: dict[tuple[int, str], int] = {}
    violations = []
    for one in seen:
        if one.leader >= 0:
            leader = leaders.setdefault((one.partition, one.epoch), one.leader)
            if leader != one.leader:
                violations.append(f"{one.partition} has the leaders {leader} and {one.leader} in epoch {one.epoch}")
        before = newest.get((one.broker, one.partition), -1)
        if one.epoch < before:
            violations.append(f"broker {one.broker} went back from epoch {before} to {one.epoch} of {one.partition}")
        newest[one.broker, one.partition] = max(before, one.epoch)
    return _some(violations)


def uncommitted(events: Iterable[GroupEvent]) -> list[str]:
    """A member begins where a commit that was confirmed before says, or after it."""
    commits = sorted((event for event in events if event.kind == "commit"), key=lambda event: event.ended_s)
    violations = []
    for begin in (event for event in events if event.kind == "begin"):
        known = [one for one in commits if one.partition == begin.partition and one.ended_s < begin.began_s]
        newest = max((one.offset for one in known), default=-1)
        if begin.offset < newest:
            violations.append(
                f"a member began at {begin.offset} of partition {begin.partition}, {newest} was committed"
            )
    return _some(violations)


def unprocessed(log: Iterable[Entry], processed: Iterable[Place]) -> list[str]:
    """The group has read every record of the log."""
    done = set(processed)
    return _some(f"{entry.value} at {entry.place} was not processed" for entry in log if entry.place not in done)


def unbalanced(outcomes: Mapping[str, str], entries: Iterable[Entry]) -> list[str]:
    """Of each transfer, written TRANSFER:ACCOUNT:AMOUNT, both halves are there or none.

    Args: outcomes: "committed", "aborted" or "unknown", by transfer.
    """
    halves: dict[str, list[int]] = defaultdict(list)
    for entry in entries:
        transfer, _, amount = entry.value.split(":")
        halves[transfer].append(int(amount))
    allowed = {"committed": (2,), "aborted": (0,), "unknown": (0, 2)}
    violations = [
        f"transfer {transfer} is {outcome}, and {len(halves[transfer])} of its halves are there"
        for transfer, outcome in outcomes.items()
        if len(halves[transfer]) not in allowed[outcome]
    ]
    total = sum(sum(amounts) for amounts in halves.values())
    if total:
        violations.append(f"the sum of all accounts is {total}")
    return _some(
        [*violations, *(f"nobody made transfer {transfer}" for transfer in halves if transfer not in outcomes)]
    )


def outdated(acknowledged: Mapping[str, int], newest: Mapping[str, int]) -> list[str]:
    """A compacted topic has of each key the last acknowledged number, or a later one."""
    return _some(
        f"{key} ends at {newest.get(key, 'nothing')}, {number} was acknowledged"
        for key, number in acknowledged.items()
        if newest.get(key, -1) < number
    )


def slow(waits_s: Mapping[str, float], limit_s: float) -> list[str]:
    """No client waited for longer than the limit. Args: waits_s: by fault."""
    return [f"clients waited {wait_s:.2f} s after: {fault}" for fault, wait_s in waits_s.items() if wait_s > limit_s]


def _some(violations: Iterable[str]) -> list[str]:
    """Return the first violations, and how many more there are."""
    all_ = list(violations)
    more = Counter(all_[SHOWN:]).total()
    return all_[:SHOWN] + ([f"... and {more:,} more of this kind"] if more else [])
