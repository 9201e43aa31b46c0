from __future__ import annotations

from kqueue.groups.consumer.group import ConsumerGroup
from kqueue.groups.log.changes import Changes
from kqueue.groups.modern.assignment import CurrentAssignment
from kqueue.groups.modern.records import GroupEpoch
from kqueue.tests.groups.support import unlimited
from kqueue.tests.tables import for_each


@for_each(
    "members, epoch, target, reconciled, state",
    [
        (0, 5, 3, 0, "Empty"),
        (2, 5, 4, 2, "Assigning"),
        (2, 5, 5, 1, "Reconciling"),
        (2, 5, 5, 2, "Stable"),
    ],
)
def test_a_groups_state_follows_from_its_epochs(
    members: int, epoch: int, target: int, reconciled: int, state: str
) -> None:
    group, changes = ConsumerGroup("g", unlimited()), Changes()
    group.set_epoch(changes, GroupEpoch(epoch, 0))
    group.set_target_epoch(changes, target, 0)
    for number in range(members):
        group.put_current(changes, f"m{number}", CurrentAssignment(target if number < reconciled else target - 1))
    assert group.state.value == state
