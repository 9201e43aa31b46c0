"""The placement of replicas when brokers come or go: even, with few replicas moved.

A replica moves only if its broker is not among the chosen ones, or has more than others: of the
topic by two, or of all topics by two. A move never leaves a partition in fewer racks. Then the
order of replicas changes until preferred leaders are as even, which copies nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from kqueue.base.errors import InvalidReplicationFactor
from kqueue.base.text import counted

Replicas = tuple[int, ...]
Key = tuple[str, int]
"""Topic and partition."""


def rebalance(
    racks: Mapping[int, str | None], current: Mapping[Key, Replicas], factors: Mapping[str, int]
) -> dict[Key, Replicas]:
    """Return the replicas of each partition on the chosen brokers, preferred leader first.

    Args:
        racks: of the chosen brokers.
        factors: number of replicas, by topic.
    Raises: InvalidReplicationFactor: there are fewer brokers.
    """
    for topic, factor in factors.items():
        if factor > len(racks):
            have = f"{len(racks)} {'is' if len(racks) == 1 else 'are'} chosen"
            raise InvalidReplicationFactor(f"{topic}: {counted(factor, 'replica')} need as many brokers, and {have}")
    placed = _Placed(racks, current, factors)
    for by_total in (False, True):  # each topic first: what that moves counts for the total
        while placed.level_replicas(by_total):
            pass
    while placed.level_leaders():
        pass
    return {key: tuple(replicas) for key, replicas in placed.replicas.items()}


class _Placed:
    """A placement that is being improved. Each change makes the squares of the counts smaller, so
    it ends.
    """

    def __init__(
        self, racks: Mapping[int, str | None], current: Mapping[Key, Replicas], factors: Mapping[str, int]
    ) -> None:
        self._racks = racks
        self._nodes = sorted(racks)
        self._counts: Counter[int] = Counter()
        self._topic_counts: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self.replicas: dict[Key, list[int]] = {}
        for key in sorted(current):
            kept = [node for node in dict.fromkeys(current[key]) if node in racks][: factors[key[0]]]
            self.replicas[key] = kept
            self._counts.update(kept)
            self._topic_counts[key[0]].update(kept)
        for key, replicas in self.replicas.items():
            while len(replicas) < factors[key[0]]:
                self._add(key, replicas)

    def _add(self, key: Key, replicas: list[int]) -> None:
        """Add a replica where it is needed most: in another rack, then where there are few."""
        used = Counter(self._racks[node] for node in replicas)
        counts = self._topic_counts[key[0]]
        free = (node for node in self._nodes if node not in replicas)
        node = min(free, key=lambda node: (used[self._racks[node]], counts[node], self._counts[node]))
        replicas.append(node)
        counts[node] += 1
        self._counts[node] += 1

    def level_replicas(self, by_total: bool) -> bool:
        """Move what makes the counts more even; False: nothing was to be moved.

        Args: by_total: those of all topics too, else of each topic alone.
        """
        moved = False
        for key, replicas in self.replicas.items():
            counts = self._topic_counts[key[0]]
            for full, free in self._pairs(counts, self._counts, replicas, by_total):
                if full in replicas and free not in replicas and self._keeps_racks(replicas, full, free):
                    replicas[replicas.index(full)] = free
                    for count in (counts, self._counts):
                        count[full] -= 1
                        count[free] += 1
                    moved = True
        return moved

    def level_leaders(self) -> bool:
        """Change orders so that preferred leaders are more even; False: nothing was to be done."""
        leads = Counter(replicas[0] for replicas in self.replicas.values())
        topic_leads: defaultdict[str, Counter[int]] = defaultdict(Counter)
        for (topic, _), replicas in self.replicas.items():
            topic_leads[topic][replicas[0]] += 1
        changed = False
        for (topic, _), replicas in self.replicas.items():
            counts = topic_leads[topic]
            for full, free in self._pairs(counts, leads, replicas[:1]):
                if replicas[0] == full and free in replicas:
                    replicas.remove(free)
                    replicas.insert(0, free)
                    for count in (counts, leads):
                        count[full] -= 1
                        count[free] += 1
                    changed = True
        return changed

    def _pairs(
        self, topic: Counter[int], total: Counter[int], of: list[int], by_total: bool = True
    ) -> Iterator[tuple[int, int]]:
        """Yield those of `of` that have too much, each with brokers that have less."""
        for full in sorted(of, key=lambda node: (-topic[node], -total[node])):
            for free in sorted(self._nodes, key=lambda node: (topic[node], total[node])):
                less = topic[full] - topic[free]
                if less >= 2 or (by_total and less == 1 and total[full] - total[free] >= 2):
                    yield full, free

    def _keeps_racks(self, replicas: list[int], full: int, free: int) -> bool:
        after = [free if node == full else node for node in replicas]
        return len({self._racks[node] for node in after}) >= len({self._racks[node] for node in replicas})
