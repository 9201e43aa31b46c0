from __future__ import annotations

from kqueue.groups.modern.assignment import CurrentAssignment, ModernMemberState
from kqueue.groups.share.member import ShareSubscription, current_of


def test_a_member_has_its_partitions_since_its_epoch_and_revokes_none() -> None:
    topic = b"t" * 16
    current = current_of(4, 3, {topic: frozenset({0, 2})})
    assert current == CurrentAssignment(4, 3, ModernMemberState.STABLE, {topic: {0: 4, 2: 4}}, {})
    assert ShareSubscription().rebalance_timeout_ms == 0
