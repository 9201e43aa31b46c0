from __future__ import annotations

import pytest

from kqueue.base import errors
from kqueue.groups.group_log import coordinator_error


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (errors.StorageFailed("disk"), errors.NotCoordinator),
        (errors.NotLeader("moved"), errors.NotCoordinator),
        (errors.UnknownTopicOrPartition("no topic"), errors.CoordinatorNotAvailable),
        (errors.RequestTimedOut("late"), errors.CoordinatorNotAvailable),
        (errors.RecordTooLarge("big"), errors.KqueueError),
        (errors.Conflict("other"), errors.Conflict),
    ],
)
def test_members_are_told_where_to_turn(failure: errors.KqueueError, expected: type[errors.KqueueError]) -> None:
    error = coordinator_error(failure)
    assert type(error) is expected
    assert str(failure) in str(error)
