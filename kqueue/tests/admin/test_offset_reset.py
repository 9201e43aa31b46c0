from __future__ import annotations

from collections.abc import Iterator

import pytest

import kqueue
from kqueue.admin.offset_reset import (
    PlannedOffset,
    ResetKind,
    ResetRefused,
    ResetTarget,
    check_no_members,
    execute_reset,
    plan_reset,
    positions,
)
from kqueue.client import Client, GroupListing, TopicPartition
from kqueue.tests.client.serving import TIME_MS, batch
from kqueue.tests.tables import for_each

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker() as broker:
        broker.create_topic("orders", 2)
        with Client(broker.bootstrap) as client:
            client.produce({ZERO: batch([b"0"] * 10), ONE: batch([b"1"] * 4)})
            client.delete_records({ZERO: 2})
        yield broker


@pytest.fixture
def client(broker: kqueue.Broker) -> Iterator[Client]:
    with Client(broker.bootstrap) as client:
        yield client


@pytest.mark.parametrize(
    ("target", "new"),
    [
        (ResetTarget(ResetKind.EARLIEST), [2, 0]),
        (ResetTarget(ResetKind.LATEST), [10, 4]),
        (ResetTarget(ResetKind.OFFSET, 3), [3, 3]),
        (ResetTarget(ResetKind.OFFSET, -3), [7, 1]),
        (ResetTarget(ResetKind.OFFSET, 2**70), [10, 4]),
        (ResetTarget(ResetKind.SHIFT, -2), [3, 0]),
        (ResetTarget(ResetKind.SHIFT, -(2**70)), [2, 0]),
        (ResetTarget(ResetKind.TIME, 0), [2, 0]),
        (ResetTarget(ResetKind.TIME, TIME_MS + HOUR_MS), [10, 4]),
        (ResetTarget(ResetKind.TIME, 2**70), [10, 4]),
    ],
)
def test_new_offsets_are_within_the_log(client: Client, target: ResetTarget, new: list[int]) -> None:
    plan = plan_reset(client, [ONE, ZERO], {ZERO: 5, ONE: 2}, target)
    assert [(planned.partition, planned.new) for planned in plan] == list(zip((ZERO, ONE), new, strict=True))


def test_the_plan_says_what_is_skipped_and_read_again() -> None:
    back = PlannedOffset(ZERO, 8, 3, start=2, end=10)
    assert (back.skipped, back.read_again, back.lag) == (0, 5, 7)
    forward = PlannedOffset(ZERO, 0, 10, start=2, end=10)  # the records before the log's start are gone anyway
    assert (forward.skipped, forward.read_again, forward.lag) == (8, 0, 0)
    beyond = PlannedOffset(ZERO, 50, 9, start=2, end=10)  # the topic was made again, and is shorter
    assert (beyond.skipped, beyond.read_again) == (0, 1)
    unknown = PlannedOffset(ZERO, None, 3, start=2, end=10)
    assert (unknown.skipped, unknown.read_again) == (None, None)


def test_partitions_that_do_not_exist_are_left_out(client: Client) -> None:
    gone = [TopicPartition("orders", 7), TopicPartition("gone", 0)]
    assert plan_reset(client, gone, {}, ResetTarget(ResetKind.EARLIEST)) == []
    assert len(plan_reset(client, [*gone, ZERO, ZERO], {}, ResetTarget(ResetKind.EARLIEST))) == 1


def test_a_shift_needs_committed_offsets(client: Client) -> None:
    with pytest.raises(ResetRefused, match="no committed offset to shift for orders-1;"):
        plan_reset(client, [ZERO, ONE], {ZERO: 3}, ResetTarget(ResetKind.SHIFT, 1))


def test_a_reset_is_committed(client: Client) -> None:
    plan = plan_reset(client, [ZERO, ONE], {}, ResetTarget(ResetKind.LATEST))
    assert positions(client, "reset", "classic") == {}
    assert execute_reset(client, "reset", "classic", plan) == {}
    assert positions(client, "reset", "classic") == {ZERO: 10, ONE: 4}


def test_a_group_with_members_is_refused(client: Client) -> None:
    check_no_members(client, "none", None)
    check_no_members(client, "reset", GroupListing("reset", "", "", ""))  # as before Kafka 2.6: it is described
    check_no_members(client, "reset", GroupListing("reset", "consumer", "Empty", "classic"))
    with pytest.raises(ResetRefused, match=r"'reset' has members \(its state is Stable\); stop its consumers first"):
        check_no_members(client, "reset", GroupListing("reset", "consumer", "Stable", "classic"))


@for_each("is_share", [False, True])
def test_partitions_that_the_broker_refuses_are_returned(client: Client, is_share: bool) -> None:
    gone = PlannedOffset(TopicPartition("gone", 0), None, 0, start=0, end=0)
    refused = execute_reset(client, "refused", "share" if is_share else "classic", [gone])
    assert "UNKNOWN_TOPIC_OR_PARTITION" in refused[gone.partition] or "topic" in refused[gone.partition]
