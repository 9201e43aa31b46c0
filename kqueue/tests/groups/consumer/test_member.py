from __future__ import annotations

from kqueue.groups.consumer.member import ConsumerGroupMember, CurrentAssignment, all_owned
from kqueue.groups.consumer.state import ConsumerMemberState
from kqueue.tests.groups.consumer.consumers import T, U


def test_a_member_owns_what_it_still_revokes() -> None:
    current = CurrentAssignment(assigned={T: {0: 1}}, revoking={T: {1: 1}, U: {0: 1}})
    assert all_owned(current) == {T: {0, 1}, U: {0}}


def test_a_member_is_reconciled_when_it_owns_the_target_of_the_epoch() -> None:
    member = ConsumerGroupMember("m", current=CurrentAssignment(epoch=3))
    waiting = member._replace(current=member.current._replace(state=ConsumerMemberState.UNRELEASED_PARTITIONS))
    assert (member.is_reconciled(3), member.is_reconciled(4), waiting.is_reconciled(3)) == (True, False, False)
