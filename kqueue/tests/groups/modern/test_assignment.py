from __future__ import annotations

from kqueue.groups.modern.assignment import CurrentAssignment, ModernMemberState, is_contained, must_revoke, same_owned


def test_a_member_is_reconciled_when_it_owns_the_target_of_the_epoch() -> None:
    current: CurrentAssignment[str] = CurrentAssignment(epoch=3)
    waiting = current._replace(state=ModernMemberState.UNRELEASED_PARTITIONS)
    assert (current.is_reconciled(3), current.is_reconciled(4), waiting.is_reconciled(3)) == (True, False, False)


def test_a_member_must_revoke_until_its_epoch_changes() -> None:
    current = CurrentAssignment(epoch=3, revoking={"t": {0: 2}})
    assert (must_revoke(current, 3), must_revoke(current, 4)) == (True, False)
    assert not must_revoke(current._replace(revoking={}), 3)


def test_an_index_is_owned_since_an_epoch_while_it_is_assigned_or_revoked() -> None:
    current = CurrentAssignment(epoch=5, assigned={"t": {0: 2}}, revoking={"t": {1: 3}})
    assert [current.is_owned_since("t", 0, epoch) for epoch in (1, 2, 3)] == [False, True, True]
    assert [current.is_owned_since("t", 1, epoch) for epoch in (2, 3)] == [False, True]
    assert not current.is_owned_since("t", 2, 5)
    assert not current.is_owned_since("u", 0, 5)


def test_epochs_do_not_make_a_difference_between_what_members_own() -> None:
    assert same_owned({"t": {0: 1}}, {"t": {0: 5}})
    assert not same_owned({"t": {0: 1}}, {"t": {0: 1, 1: 1}})
    assert not same_owned({"t": {0: 1}}, {"u": {0: 1}})


def test_is_contained_compares_owned_with_assigned_partitions() -> None:
    assigned = {"t": {0: 1, 1: 1}}
    assert is_contained({}, assigned)
    assert is_contained({"t": frozenset({1})}, assigned)
    assert not is_contained({"t": frozenset({2})}, assigned)
    assert not is_contained({"u": frozenset({0})}, assigned)
