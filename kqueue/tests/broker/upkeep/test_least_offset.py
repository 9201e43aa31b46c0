from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kqueue.broker.upkeep.backlog import HEAP_RATIO, HEAP_SPARE, LeastOffset

CHANGES = st.lists(st.tuples(st.sampled_from("abcde"), st.none() | st.integers(0, 9)), max_size=200)


@given(CHANGES)
def test_least_offset_is_right_after_any_changes(changes: list[tuple[str, int | None]]) -> None:
    least, known = LeastOffset(), dict[str, int]()
    for group, offset in changes:
        if offset is None:
            known.pop(group, None)
            least.remove(group)
        else:
            known[group] = offset
            least.set(group, offset)
        assert least.least() == min(((offset, group) for group, offset in known.items()), default=None)
        assert {group: least.get(group, -1) for group in "abcde"} == {group: known.get(group, -1) for group in "abcde"}


def test_many_commits_of_few_groups_take_little_memory() -> None:
    least = LeastOffset()
    for offset in range(10_000):
        least.set("a", offset)
        least.set("b", offset + 1)
    assert len(least._heap) <= HEAP_RATIO * 2 + HEAP_SPARE + 1
