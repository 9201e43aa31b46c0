from __future__ import annotations

from kqueue.admin.partition_conditions import Condition, conditions_of
from kqueue.tests.tables import for_each

UNDER, GONE, BELOW, AT = (
    Condition.UNDER_REPLICATED,
    Condition.UNAVAILABLE,
    Condition.UNDER_MIN_ISR,
    Condition.AT_MIN_ISR,
)


@for_each(
    "leader, isr, min_isr, conditions",
    [
        (1, [1, 2, 3], 1, set()),
        (1, [1, 2], 1, {UNDER}),
        (1, [1, 2], 2, {UNDER, AT}),
        (1, [1], 2, {UNDER, BELOW}),
        (1, [1, 2, 3], 3, {AT}),
        (-1, [1, 2, 3], 1, {GONE, BELOW}),
        (-1, [], 1, {UNDER, GONE, BELOW}),
    ],
)
def test_conditions(leader: int, isr: list[int], min_isr: int, conditions: set[Condition]) -> None:
    assert conditions_of(leader, [1, 2, 3], isr, min_isr=min_isr) == conditions


def test_a_replica_that_is_being_added_need_not_be_in_sync() -> None:
    assert conditions_of(1, [4, 1, 2], [1, 2], adding=[4]) == set()
    assert conditions_of(1, [4, 1, 2], [1], adding=[4]) == {UNDER, AT}
