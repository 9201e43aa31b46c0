"""The assignor `uniform`: members get as many partitions as each other, and keep what they have.

Where all members subscribe to the same topics, the numbers differ by one at most. Where they do
not, no partition can be moved to a member with two or more fewer. Source: KIP-848, Kafka
UniformAssignor.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

from kqueue.groups.assignors.contract import AssignorMember, AssignorTopic, AssignorWork

Partition = tuple[bytes, int]
Owned = dict[str, dict[bytes, list[int]]]


class UniformAssignor:
    """Balanced and sticky."""

    def assign(self, members: Sequence[AssignorMember], topics: Mapping[bytes, AssignorTopic]) -> AssignorWork:
        """See `Assignor`."""
        if not members:
            return {}
        same = all(member.topics == members[0].topics for member in members)
        return (yield from _Balance(members, topics).run(is_homogeneous=same))


class _Balance:
    """One computation. `owned` grows to the result; `loads` counts its partitions by member."""

    def __init__(self, members: Sequence[AssignorMember], topics: Mapping[bytes, AssignorTopic]) -> None:
        self.members = members
        self.topics = topics
        self.order = sorted(topics, key=lambda topic: topics[topic].name)
        self.owned: Owned = {member.member_id: {} for member in members}
        self.loads = dict.fromkeys(self.owned, 0)

    def run(self, *, is_homogeneous: bool) -> AssignorWork:
        """Return the assignment."""
        if is_homogeneous:
            yield from self._fill_quotas()
        else:
            yield from self._keep()
            yield from self._hand_out()
            yield from self._even_out()
        return self.owned

    # --- members with the same topics

    def _fill_quotas(self) -> Generator[None, None, None]:
        """Let each member keep up to its quota, then hand out the rest in order.

        As many members as needed have a quota of one more: first those that can keep one more.
        """
        topics = [topic for topic in self.order if topic in self.members[0].topics]
        count = sum(self.topics[topic].partition_count for topic in topics)
        share, extra = divmod(count, len(self.members))
        kept: set[Partition] = set()
        for member in self.members:
            keepable = [each for each in self._current(member) if each not in kept]
            quota = share
            if extra and len(keepable) > share:
                quota, extra = share + 1, extra - 1
            for topic, index in keepable[:quota]:
                self._give(member.member_id, topic, index)
                kept.add((topic, index))
            yield None
        free = (
            (topic, index)
            for topic in topics
            for index in range(self.topics[topic].partition_count)
            if (topic, index) not in kept
        )
        for member in self.members:
            wanted = share - self.loads[member.member_id]
            if extra and wanted >= 0:
                wanted, extra = wanted + 1, extra - 1
            for _ in range(wanted):
                self._give(member.member_id, *next(free))
            yield None

    def _current(self, member: AssignorMember) -> list[Partition]:
        """Return what a member has and may keep, in the order of topics and partitions."""
        return [
            (topic, index)
            for topic in self.order
            if topic in member.topics and topic in member.current
            for index in sorted(member.current[topic])
            if index < self.topics[topic].partition_count
        ]

    # --- members with different topics

    def _keep(self) -> Generator[None, None, None]:
        taken: set[Partition] = set()
        for member in self.members:
            for each in self._current(member):
                if each not in taken:
                    taken.add(each)
                    self._give(member.member_id, *each)
            yield None

    def _hand_out(self) -> Generator[None, None, None]:
        """Give free partitions to the least loaded subscribers; topics with few of them first."""
        subscribers = self._subscribers()
        owned = {(topic, index) for topics in self.owned.values() for topic in topics for index in topics[topic]}
        for topic in sorted(self.order, key=lambda topic: len(subscribers[topic])):
            if not subscribers[topic]:
                continue
            for index in range(self.topics[topic].partition_count):
                if (topic, index) not in owned:
                    self._give(min(subscribers[topic], key=self.loads.__getitem__), topic, index)
                    yield None

    def _even_out(self) -> Generator[None, None, None]:
        """Move partitions to members with at least two fewer, until there is nothing to move.

        Each move makes the sum of the squares of the loads smaller, so this ends.
        """
        subscribers = self._subscribers()
        moved = True
        while moved:
            moved = False
            for topic in self.order:
                while (move := self._find_move(topic, subscribers[topic])) is not None:
                    self._move(topic, *move)
                    moved = True
                    yield None
                yield None

    def _find_move(self, topic: bytes, subscribers: Sequence[str]) -> tuple[str, str] | None:
        """Return from whom to whom a partition of the topic should go."""
        givers = [member_id for member_id in subscribers if self.owned[member_id].get(topic)]
        if not givers:
            return None
        giver = max(givers, key=self.loads.__getitem__)
        taker = min(subscribers, key=self.loads.__getitem__)
        return (giver, taker) if self.loads[giver] - self.loads[taker] >= 2 else None

    def _move(self, topic: bytes, giver: str, taker: str) -> None:
        indexes = self.owned[giver][topic]
        index = indexes.pop()
        self.loads[giver] -= 1
        if not indexes:
            del self.owned[giver][topic]
        self._give(taker, topic, index)

    def _subscribers(self) -> dict[bytes, list[str]]:
        subscribers: dict[bytes, list[str]] = {topic: [] for topic in self.order}
        for member in self.members:
            for topic in member.topics:
                subscribers[topic].append(member.member_id)
        return subscribers

    def _give(self, member_id: str, topic: bytes, index: int) -> None:
        self.owned[member_id].setdefault(topic, []).append(index)
        self.loads[member_id] += 1
