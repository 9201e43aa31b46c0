"""The assignor `uniform`: members get as many partitions as each other, and keep what they have.

Where all members subscribe to the same topics, the numbers differ by one at most. Where they do
not, no partition can be moved to a member with two or more fewer. Source: KIP-848, Kafka
UniformAssignor.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from kqueue.groups.assignors.contract import AssignorMember, AssignorTopic, AssignorWork

Partition = tuple[bytes, int]
Owned = dict[str, dict[bytes, list[int]]]
Subscribers = dict[bytes, list[str]]


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
            taken = yield from self._keep()
            subscribers = yield from self._subscribers()
            yield from self._hand_out(taken, subscribers)
            yield from self._even_out(subscribers)
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

    def _keep(self) -> Generator[None, None, set[Partition]]:
        """Let members keep what they have; return it."""
        taken: set[Partition] = set()
        for member in self.members:
            for each in self._current(member):
                if each not in taken:
                    taken.add(each)
                    self._give(member.member_id, *each)
            yield None
        return taken

    def _hand_out(self, taken: set[Partition], subscribers: Subscribers) -> Generator[None, None, None]:
        """Give free partitions to the least loaded subscribers; topics with few of them first."""
        for topic in sorted(self.order, key=lambda topic: len(subscribers[topic])):
            free = [index for index in range(self.topics[topic].partition_count) if (topic, index) not in taken]
            yield None
            if not free or not subscribers[topic]:
                continue
            heap = [(self.loads[member_id], member_id) for member_id in subscribers[topic]]
            heapify(heap)
            for index in free:
                load, member_id = heap[0]
                self._give(member_id, topic, index)
                heapreplace(heap, (load + 1, member_id))
                yield None

    def _even_out(self, subscribers: Subscribers) -> Generator[None, None, None]:
        """Move partitions to members with at least two fewer, until there is nothing to move.

        Each move makes the sum of the squares of the loads smaller, so this ends.
        """
        moved = True
        while moved:
            moved = False
            for topic in self.order:
                for move in self._moves(topic, subscribers[topic]):
                    self._move(topic, *move)
                    moved = True
                    yield None
                yield None

    def _moves(self, topic: bytes, subscribers: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield from whom to whom a partition of the topic should go; the caller moves it.

        The heaps have an entry for each load that a member had. Those of other loads are dropped.
        """
        loads = self.loads
        givers = [(-loads[member_id], member_id) for member_id in subscribers if topic in self.owned[member_id]]
        takers = [(loads[member_id], member_id) for member_id in subscribers]
        heapify(givers)
        heapify(takers)
        while givers:
            minus, giver = givers[0]
            load, taker = takers[0]
            if -minus != loads[giver] or topic not in self.owned[giver]:
                heappop(givers)
            elif load != loads[taker]:
                heappop(takers)
            elif loads[giver] - load < 2:
                return
            else:
                yield giver, taker
                for member_id in (giver, taker):
                    heappush(takers, (loads[member_id], member_id))
                    heappush(givers, (-loads[member_id], member_id))

    def _move(self, topic: bytes, giver: str, taker: str) -> None:
        indexes = self.owned[giver][topic]
        index = indexes.pop()
        self.loads[giver] -= 1
        if not indexes:
            del self.owned[giver][topic]
        self._give(taker, topic, index)

    def _subscribers(self) -> Generator[None, None, Subscribers]:
        subscribers: Subscribers = {topic: [] for topic in self.order}
        for member in self.members:
            for topic in member.topics:
                subscribers[topic].append(member.member_id)
            yield None
        return subscribers

    def _give(self, member_id: str, topic: bytes, index: int) -> None:
        self.owned[member_id].setdefault(topic, []).append(index)
        self.loads[member_id] += 1
