"""Conditions of a partition that an operator looks for. Source: Kafka's TopicCommand."""

from __future__ import annotations

import enum
from collections.abc import Collection

NO_LEADER = -1


class Condition(enum.Enum):
    """The faults that a partition can have; the value names it in options and JSON."""

    UNDER_REPLICATED = "under-replicated"
    UNAVAILABLE = "unavailable"
    UNDER_MIN_ISR = "under-min-isr"
    AT_MIN_ISR = "at-min-isr"


def conditions_of(
    leader: int, replicas: Collection[int], isr: Collection[int], *, adding: Collection[int] = (), min_isr: int = 1
) -> frozenset[Condition]:
    """Return the conditions that hold.

    Args:
        leader: -1: none.
        adding: those of `replicas` that a reassignment adds; they need not be in sync yet.
        min_isr: the topic's min.insync.replicas.
    """
    conditions = set()
    if len(set(replicas) - set(adding)) > len(isr):
        conditions.add(Condition.UNDER_REPLICATED)
    if leader == NO_LEADER:
        conditions |= {Condition.UNAVAILABLE, Condition.UNDER_MIN_ISR}
    elif len(isr) < min_isr:
        conditions.add(Condition.UNDER_MIN_ISR)
    if len(isr) == min_isr:
        conditions.add(Condition.AT_MIN_ISR)
    return frozenset(conditions)
