from __future__ import annotations

import pytest

from kqueue.groups.consumer.state import group_state


@pytest.mark.parametrize(
    ("members", "epoch", "target", "reconciled", "state"),
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
    assert group_state(members, epoch, target, reconciled).value == state
