from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base import errors
from kqueue.base.coordinators import (
    CoordinatorPartitions,
    Done,
    PartitionedTable,
    coordinator_error,
    coordinator_partition,
)
from kqueue.tests.tables import for_each


@for_each(
    "failure, expected",
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


@for_each(
    "group_id, count, partition",
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


def test_a_partition_is_served_between_its_load_and_its_leave() -> None:
    partitions = CoordinatorPartitions("group", lambda: 50)
    partitions.require_load()
    states = [partitions.state(47)]
    for change in (
        partitions.mark_loading,
        partitions.mark_loaded,
        partitions.mark_left,
        partitions.mark_loading,
        lambda partition: partitions.mark_unreadable(partition, "damaged"),
        partitions.mark_left,
    ):
        change(47)
        states.append(partitions.state(47))
        assert partitions.version(47) == len(states) - 1
    assert [state.value for state in states] == [
        *("not here", "loading", "active", "not here", "loading", "unreadable", "not here")
    ]
    assert not partitions.is_active(46)


def test_writes_of_a_partition_that_leaves_fail_once() -> None:
    partitions = CoordinatorPartitions("group", lambda: 50)
    settles: list[Done] = []
    outcomes: list[tuple[int, errors.KqueueError | None]] = []
    for number, partition in enumerate((47, 46, 47)):
        settle = partitions.begin_write(partition, lambda error, number=number: outcomes.append((number, error)))  # type: ignore[misc]
        assert settle is not None
        settles.append(settle)
    settles[2](None)
    partitions.mark_left(47)
    assert partitions.write_count == 1
    assert outcomes[0] == (2, None)
    assert [(number, type(error)) for number, error in outcomes[1:]] == [(0, errors.NotCoordinator)]
    partitions.mark_loaded(47)
    settles[0](None)
    settles[1](None)
    assert outcomes[2:] == [(1, None)]
    assert partitions.write_count == 0


@for_each("state", ["not here", "loading", "unreadable"])
def test_nothing_is_written_to_a_partition_that_is_not_served(state: str) -> None:
    partitions = CoordinatorPartitions("group", lambda: 50)
    marks = {
        "not here": partitions.mark_left,
        "loading": partitions.mark_loading,
        "unreadable": lambda partition: partitions.mark_unreadable(partition, "damaged"),
    }
    marks[state](47)
    outcomes: list[errors.KqueueError | None] = []
    assert partitions.begin_write(47, outcomes.append) is None
    expected = errors.CoordinatorLoadInProgress if state == "loading" else errors.NotCoordinator
    assert [type(error) for error in outcomes] == [expected]
    assert type(coordinator_error(outcomes[0] or errors.KqueueError())) is expected


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans())))
def test_a_table_knows_the_keys_of_each_partition(steps: list[tuple[int, bool]]) -> None:
    table: PartitionedTable[int, str] = PartitionedTable(lambda key: key % 3)
    model: dict[int, str] = {}
    for key, is_put in steps:
        if is_put:
            table[key] = model[key] = str(key)
        else:
            assert table.pop(key, None) == model.pop(key, None)
    assert dict(table) == model
    assert table.get(99) is None
    for partition in range(3):
        assert table.keys_of(partition) == [key for key in model if key % 3 == partition]
