"""A largest matching of two sets: as many pairs as can be, each member in one pair at most.

Source: augmenting paths, Berge's lemma; each is found breadth first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence


def matching_size(edges: Sequence[Sequence[int]], spend: Callable[[int], None]) -> int:
    """Return the number of pairs in a largest matching.

    Args:
        edges: for each member of the left set, the numbers of those of the right that it may take.
        spend: called with the number of edges that a search looks at.
    """
    left_of: dict[int, int] = {}
    right_of: dict[int, int] = {}
    for start in range(len(edges)):
        end, came_from = _augmenting_path(edges, start, left_of, spend)
        while end is not None:
            left = came_from[end]
            left_of[end] = left
            # The partner that this member had before takes the step before.
            before = right_of.get(left)
            right_of[left] = end
            end = before
    return len(right_of)


def _augmenting_path(
    edges: Sequence[Sequence[int]], start: int, left_of: Mapping[int, int], spend: Callable[[int], None]
) -> tuple[int | None, Mapping[int, int]]:
    """Return a free member of the right set that a path leads to, None if there is none, and from
    which member of the left set each on the way was come to.
    """
    came_from: dict[int, int] = {}
    waiting = deque([start])
    while waiting:
        left = waiting.popleft()
        spend(1 + len(edges[left]) // 50)
        for right in edges[left]:
            if right not in came_from:
                came_from[right] = left
                if right not in left_of:
                    return right, came_from
                waiting.append(left_of[right])
    return None, came_from
