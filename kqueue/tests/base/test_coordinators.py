from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base import errors
from kqueue.base.coordinators import CoordinatorPartitions, coordinator_error, coordinator_partition


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
def test_clients_are_told_where_to_turn(failure: errors.KqueueError, expected: type[errors.KqueueError]) -> None:
    error = coordinator_error(failure)
    assert type(error) is expected
    assert str(failure) in str(error)


@pytest.mark.parametrize(
    ("group_id", "count", "partition"),
    [
        ("", 50, 0),
        ("a", 50, 47),
        ("golden-v2-gzip", 50, 39),
        ("polygenelubricants", 50, 0),
        ("größe", 50, 7),
        ("𝄞", 50, 44),
        ("my-group-1", 3, 2),
    ],
)
def test_partition_is_javas(group_id: str, count: int, partition: int) -> None:
    assert coordinator_partition(group_id, count) == partition


@given(st.text(max_size=30), st.integers(1, 100))
def test_partition_exists(group_id: str, count: int) -> None:
    assert 0 <= coordinator_partition(group_id, count) < count


def test_ids_of_partitions_that_were_not_read_are_refused() -> None:
    partitions = CoordinatorPartitions("group", lambda: 50)
    assert partitions.of("a") == 47
    partitions.mark_loading(47)
    assert partitions.is_loading
    with pytest.raises(errors.CoordinatorLoadInProgress, match="group 'a' is still being read"):
        partitions.check_readable("a")
    partitions.check_readable("größe")
    partitions.mark_loaded(47)
    partitions.check_readable("a")
    partitions.mark_loading(47)
    partitions.mark_unreadable(47, "damaged")
    assert not partitions.is_loading
    with pytest.raises(errors.NotCoordinator, match="group 'a' can't be read: damaged"):
        partitions.check_readable("a")
