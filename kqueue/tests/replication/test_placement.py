"""Placement: distinct brokers, balanced, racks alternate; and checks of assignments."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import InvalidReplicaAssignment, InvalidReplicationFactor
from kqueue.replication.placement import (
    alternate_racks,
    check_assignment,
    check_replicas,
    new_partition,
    place_replicas,
)
from kqueue.tests.replication.support import broker, brokers
from kqueue.tests.tables import for_each


class First(random.Random):
    """Draws 0 always."""

    def randrange(self, *_args):
        return 0


def test_partitions_follow_each_other_and_each_round_shifts_the_followers() -> None:
    placed = place_replicas(brokers(0, 1, 2, 3, 4), 10, 3, First())
    assert placed[:5] == [(0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 0), (4, 0, 1)]
    assert placed[5:7] == [(0, 2, 3), (1, 3, 4)]


@given(st.data())
def test_replicas_are_distinct_and_each_position_is_balanced(data) -> None:
    count = data.draw(st.integers(1, 12))
    factor = data.draw(st.integers(1, count))
    partitions = data.draw(st.integers(1, 60))
    nodes = range(10, 10 + count)
    placed = place_replicas(brokers(*nodes), partitions, factor, random.Random(data.draw(st.integers(0, 99))))
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == factor
    for position in range(factor):
        counts = Counter(replicas[position] for replicas in placed)
        assert max(counts[node] for node in nodes) - min(counts[node] for node in nodes) <= 1


@given(st.data())
def test_replicas_spread_over_the_racks(data) -> None:
    racks = data.draw(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=12))
    registered = {node: broker(node, rack=rack) for node, rack in enumerate(racks)}
    factor = data.draw(st.integers(1, len(racks)))
    sizes = Counter(racks)
    for replicas in place_replicas(registered, 30, factor, random.Random(data.draw(st.integers(0, 99)))):
        used = Counter(racks[node] for node in replicas)
        fullest = max(used.values())
        assert all(used[rack] >= min(fullest - 1, size) for rack, size in sizes.items())


def test_growing_goes_on_where_the_topic_ends() -> None:
    whole = place_replicas(brokers(0, 1, 2), 7, 2, First())
    assert place_replicas(brokers(0, 1, 2), 3, 2, First(), first_partition=4) == whole[4:]


def test_fenced_brokers_come_last_and_never_lead() -> None:
    registered = {0: broker(0, fenced=True), 1: broker(1), 2: broker(2, shutting_down=True), 3: broker(3)}
    assert {node for replicas in place_replicas(registered, 9, 2, First()) for node in replicas} == {1, 3}
    for replicas in place_replicas(registered, 9, 3, First()):
        assert set(replicas[:2]) == {1, 3}
        assert replicas[2] in {0, 2}


@for_each(
    "registered, factor, message",
    [
        (brokers(1, 2), 3, "the replication factor 3 can't be reached: the cluster has 2 brokers"),
        ({}, 1, "the cluster has 0 brokers"),
        ({5: broker(5, fenced=True)}, 1, "all brokers are fenced or shut down: 5"),
        (brokers(1), 0, "is 0; expected a number from 1"),
        (brokers(1), -1, "is -1"),
    ],
)
def test_a_factor_that_can_not_be_reached(registered, factor, message) -> None:
    with pytest.raises(InvalidReplicationFactor, match=message):
        place_replicas(registered, 1, factor, First())


def test_racks_alternate() -> None:
    assert alternate_racks([3, 1, 2, 4, 5], {1: "b", 2: "b", 3: "a", 4: "a", 5: "c"}) == [3, 1, 5, 4, 2]


@for_each(
    "replicas, message",
    [
        ([], "the list of replicas is empty"),
        ([1, 2, 1], "broker 1 is named more than once"),
        ([1, 7], "broker 7 is not registered; registered brokers: 1, 2, 3"),
    ],
)
def test_a_wrong_list_of_replicas(replicas, message) -> None:
    with pytest.raises(InvalidReplicaAssignment, match=message):
        check_replicas(replicas, brokers(1, 2, 3))


def test_lists_of_one_topic_have_one_length() -> None:
    check_assignment([[1, 2], [2, 3]], brokers(1, 2, 3))
    check_assignment([[1, 2], [2, 3]], brokers(1, 2, 3), factor=2)
    with pytest.raises(InvalidReplicaAssignment, match="list 1 has 1 replicas, others of the topic have 2"):
        check_assignment([[1, 2], [3]], brokers(1, 2, 3))
    with pytest.raises(InvalidReplicaAssignment, match="list 0 has 2 replicas, others of the topic have 3"):
        check_assignment([[1, 2]], brokers(1, 2, 3), factor=3)


def test_a_new_partition_has_the_active_brokers_in_sync() -> None:
    registered = {1: broker(1, fenced=True), 2: broker(2), 3: broker(3)}
    made = new_partition([1, 3, 2], registered)
    assert (made.replicas, made.isr, made.leader) == ((1, 3, 2), (3, 2), 3)
    with pytest.raises(InvalidReplicaAssignment, match="fenced or shut down: 1"):
        new_partition([1], registered)
