from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from kqueue.schema_registry.schemas.json_schema.matching import matching_size

EDGES = st.lists(st.lists(st.integers(0, 3), unique=True, max_size=4), max_size=4)


def nothing(steps: int) -> None:
    assert steps > 0


@given(EDGES)
def test_matching_is_as_large_as_the_best_of_all_orders(edges: list[list[int]]) -> None:
    best = max(
        sum(right in edges[left] for left, right in enumerate(order[: len(edges)])) for order in permutations(range(4))
    )
    assert matching_size(edges, nothing) == best


def test_long_path_of_changes_is_found() -> None:
    size = 2_000
    edges = [[number, number + 1] if number < size - 1 else [0] for number in range(size)]
    assert matching_size(edges, nothing) == size
