from __future__ import annotations

import pytest

from kqueue.groups.errors import FencedMemberEpoch
from kqueue.groups.modern.assignment import CurrentAssignment, ModernMemberState, Wanted
from kqueue.groups.modern.reconciliation import Target, reconcile
from kqueue.tests.tables import for_each

T = b"t" * 16
STABLE = ModernMemberState.STABLE
UNREVOKED = ModernMemberState.UNREVOKED_PARTITIONS
UNRELEASED = ModernMemberState.UNRELEASED_PARTITIONS


def current(
    epoch: int, state: ModernMemberState, assigned: dict[int, int], revoking: dict[int, int] | None = None
) -> CurrentAssignment[bytes]:
    return CurrentAssignment(epoch, 1, state, {T: assigned} if assigned else {}, {T: revoking} if revoking else {})


def target(epoch: int, *indexes: int, owned: set[int] | None = None, taken: set[int] | None = None) -> Target[bytes]:
    assignment: Wanted[bytes] = {T: frozenset(indexes)} if indexes else {}
    return Target(
        epoch,
        assignment,
        lambda topic, index: index in (taken or ()),
        None if owned is None else {T: frozenset(owned)},
    )


@for_each(
    "before, wanted, epoch, state, assigned, revoking",
    [
        (current(5, STABLE, {0: 4}), target(5, 0), 5, STABLE, {0: 4}, {}),
        (current(5, STABLE, {0: 4}), target(6, 0, 1), 6, STABLE, {0: 4, 1: 6}, {}),
        (current(5, STABLE, {0: 4}), target(6, 0, 1, taken={1}), 6, UNRELEASED, {0: 4}, {}),
        (current(5, STABLE, {0: 4, 1: 4}), target(6, 0), 5, UNREVOKED, {0: 4}, {1: 4}),
        (current(5, STABLE, {0: 4, 1: 4}), target(6, 0, owned={0}), 6, STABLE, {0: 4}, {}),
        (current(5, UNREVOKED, {0: 4}, {1: 4}), target(6, 0), 5, UNREVOKED, {0: 4}, {1: 4}),
        (current(5, UNREVOKED, {0: 4}, {1: 4}), target(6, 0, owned={0, 1}), 5, UNREVOKED, {0: 4}, {1: 4}),
        (current(5, UNREVOKED, {0: 4}, {1: 4}), target(6, 0, 2, owned={0}), 6, STABLE, {0: 4, 2: 6}, {}),
        (current(5, UNREVOKED, {0: 4}, {1: 4}), target(8, 2, owned={0}), 6, UNREVOKED, {}, {0: 4}),
        (current(6, UNRELEASED, {0: 4}), target(6, 0, 1), 6, STABLE, {0: 4, 1: 6}, {}),
        (current(6, UNRELEASED, {0: 4}), target(7, 1), 6, UNREVOKED, {}, {0: 4}),
        (current(0, STABLE, {0: 0}), target(2, 0), 2, STABLE, {0: 0}, {}),
    ],
)
def test_reconcile_takes_one_step(
    before: CurrentAssignment[bytes],
    wanted: Target[bytes],
    epoch: int,
    state: ModernMemberState,
    assigned: dict[int, int],
    revoking: dict[int, int],
) -> None:
    after = reconcile(before, wanted)
    assert (after.epoch, after.state, after.assigned.get(T, {}), after.revoking.get(T, {})) == (
        epoch,
        state,
        assigned,
        revoking,
    )


def test_unsubscribed_partitions_are_revoked_before_the_next_target() -> None:
    before = current(5, STABLE, {0: 4})
    assert reconcile(before, target(5)) is before
    assert reconcile(before, target(5), changed=True).state is UNREVOKED
    assert reconcile(before, target(5, 0), changed=True) is before


def test_a_member_of_an_unknown_state_must_own_nothing() -> None:
    before = current(5, ModernMemberState.UNKNOWN, {})
    for owned in (None, {1}):
        with pytest.raises(FencedMemberEpoch):
            reconcile(before, target(6, 0, owned=owned))
    assert reconcile(before, target(6, 0, owned=set())).state is STABLE
