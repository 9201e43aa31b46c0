"""The committed offsets of many groups in one partition, and the least of them."""

from __future__ import annotations

import heapq

HEAP_RATIO = 2
HEAP_SPARE = 16


class LeastOffset:
    """Offsets by group. A change costs O(log n), however many groups there are."""

    __slots__ = ("_heap", "_offsets")

    def __init__(self) -> None:
        self._offsets: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []  # entries that are not in `_offsets` any more are dropped late

    def get(self, group: str, default: int) -> int:
        """Return the offset of a group."""
        return self._offsets.get(group, default)

    def set(self, group: str, offset: int) -> None:
        """Set the offset of a group."""
        self._offsets[group] = offset
        heapq.heappush(self._heap, (offset, group))
        if len(self._heap) > HEAP_RATIO * len(self._offsets) + HEAP_SPARE:
            self._heap = [(offset, group) for group, offset in self._offsets.items()]
            heapq.heapify(self._heap)

    def remove(self, group: str) -> None:
        """Forget a group, if it is known."""
        self._offsets.pop(group, None)

    def least(self) -> tuple[int, str] | None:
        """Return the least offset and a group that has it; None: there are no groups."""
        heap = self._heap
        while heap and self._offsets.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0] if heap else None
