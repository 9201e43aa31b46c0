from __future__ import annotations

import pytest

from kqueue.broker.fetch.replica_selector import NO_REPLICA, RackSelector, selector_for
from kqueue.broker.topics.topics import NewTopic
from kqueue.replication.config import LEADER_SELECTOR, RACK_AWARE_SELECTOR
from kqueue.tests.broker.members import Members
from kqueue.tests.broker.replicas.test_partition import append
from kqueue.tests.broker.replication import MEMORY, fetch


@pytest.fixture
def members() -> Members:
    """Broker 1 leads and has five records; 2 has them too, 3 has not fetched."""
    members = Members(4, MEMORY, racks={1: "a", 2: "b", 3: "c", 4: "b"})
    members.result(members[1].broker.topics.create(NewTopic("t", assignments={0: [1, 2, 3, 4]})))
    append(members.partition(1), *[b"x"] * 5)
    for _ in range(2):
        fetch(members, 2)
    fetch(members, 4)
    return members


@pytest.mark.parametrize(
    ("rack", "offset", "selected"),
    [("a", 0, NO_REPLICA), ("b", 0, 2), ("b", 5, 2), ("b", 6, NO_REPLICA), ("c", 0, NO_REPLICA), ("z", 0, NO_REPLICA)],
)
def test_an_in_sync_follower_of_the_rack_that_has_the_offset(
    members: Members, rack: str, offset: int, selected: int
) -> None:
    assert RackSelector(members[1].broker.metadata.cluster, rack).select(members.partition(1), offset) == selected


def test_a_follower_out_of_sync_or_fenced_is_not_selected(members: Members) -> None:
    selector = RackSelector(members[1].broker.metadata.cluster, "b")
    members.register(2, fenced=True, rack="b")
    members.settle()
    assert selector.select(members.partition(1), 0) == 4
    members.write(lambda old: old._replace(isr=(1, 2, 3)))
    assert selector.select(members.partition(1), 0) == NO_REPLICA


def test_a_follower_selects_nothing(members: Members) -> None:
    assert RackSelector(members[2].broker.metadata.cluster, "c").select(members.partition(2), 0) == NO_REPLICA


@pytest.mark.parametrize(
    ("name", "rack", "selects"),
    [
        (None, "b", False),
        (LEADER_SELECTOR, "b", False),
        (RACK_AWARE_SELECTOR, "", False),
        (RACK_AWARE_SELECTOR, "b", True),
    ],
)
def test_the_setting_and_the_consumers_rack_are_both_needed(
    members: Members, name: str | None, rack: str, selects: bool
) -> None:
    assert (selector_for(members[1].broker.metadata.cluster, name, rack) is not None) == selects
