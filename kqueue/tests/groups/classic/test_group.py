"""A group as data: who leads, which protocol is chosen, who is waited for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import FencedInstanceId, MalformedMessage, UnknownMember
from kqueue.base.promise import Promise
from kqueue.base.timers import Timers
from kqueue.groups.classic.group import ClassicGroup
from kqueue.groups.classic.member import ClassicGroupMember, JoinRequest
from kqueue.groups.classic.state import ClassicGroupState, GroupEvent
from kqueue.groups.lazy_timer import LazyTimer
from kqueue.groups.log.schemas import GroupMetadataValue, MemberMetadata
from kqueue.tests.groups.support import RANGE, unlimited
from kqueue.tests.tables import for_each


def deadline() -> LazyTimer:
    return LazyTimer(Timers(), lambda: None)


def new_group() -> ClassicGroup:
    return ClassicGroup("g", deadline(), deadline(), unlimited())


def joining(
    *, instance_id: str | None = None, protocols: dict[str, bytes] | None = None, rebalance_ms: int = 60_000
) -> JoinRequest:
    return JoinRequest(
        "g", "", instance_id, "consumer", RANGE if protocols is None else protocols, 10_000, rebalance_ms, "c", "/h"
    )


def add(
    group: ClassicGroup, member_id: str, *names: str, instance_id: str | None = None, rebalance_ms: int = 60_000
) -> ClassicGroupMember:
    protocols = {name: name.encode() for name in names or ("range",)}
    member = ClassicGroupMember(
        member_id, joining(instance_id=instance_id, protocols=protocols, rebalance_ms=rebalance_ms), deadline()
    )
    group.add(member, "consumer")
    return member


def test_the_first_member_leads_and_the_oldest_follows_it() -> None:
    group = new_group()
    first, second, third = (add(group, name) for name in "abc")
    assert group.leader_id == "a"
    group.remove(first)
    assert group.leader_id == "b"
    group.remove(third)
    assert group.leader_id == "b"
    group.remove(second)
    assert group.leader_id is None


def test_removed_member_is_not_expected_to_sync() -> None:
    group = new_group()
    member = add(group, "a", instance_id="i")
    group.unsynced.add("a")
    group.remove(member)
    assert group.unsynced == set()
    assert group.static_ids == {}


def test_a_leader_that_has_not_joined_is_replaced() -> None:
    group = new_group()
    add(group, "a")
    second = add(group, "b")
    assert not group.elect_leader()
    group.put_join_promise(second, Promise())
    assert group.elect_leader()
    assert group.leader_id == "b"


def test_everybody_joined_counts_members_and_those_who_only_have_an_id() -> None:
    group = new_group()
    assert group.all_members_joined
    member = add(group, "a")
    assert not group.all_members_joined
    promise: Promise[object] = Promise()
    group.put_join_promise(member, promise)  # type: ignore[arg-type]
    assert group.all_members_joined
    group.pending["b"] = deadline()
    assert not group.all_members_joined
    del group.pending["b"]
    assert group.take_join_promise(member) is promise
    assert group.take_join_promise(member) is None
    assert group.waiting_to_join_count == 0


def test_members_are_checked_by_id_and_instance_id() -> None:
    group = new_group()
    dynamic, static = add(group, "a"), add(group, "b", instance_id="i")
    assert group.check_member("a", None) is dynamic
    assert group.check_member("b", "i") is static
    assert group.check_member("b", None) is static
    with pytest.raises(UnknownMember):
        group.check_member("x", None)
    with pytest.raises(UnknownMember):
        group.check_member("a", "j")
    with pytest.raises(FencedInstanceId):
        group.check_member("a", "i")


def test_a_renamed_member_keeps_place_and_rank() -> None:
    group = new_group()
    member = add(group, "old", instance_id="i")
    member.assignment = b"mine"
    group.unsynced.add("old")
    group.rename(member, "new")
    assert group.members == {"new": member}
    assert group.static_ids == {"i": "new"}
    assert (group.leader_id, member.assignment, group.unsynced) == ("new", b"mine", {"new"})


def test_only_a_protocol_of_all_members_is_chosen() -> None:
    group = new_group()
    add(group, "a", "x", "y")
    add(group, "b", "x", "y")
    add(group, "c", "y", "z")
    assert group.select_protocol() == "y"


def test_the_favourite_of_most_is_chosen_and_of_several_the_first_voted_for() -> None:
    group = new_group()
    add(group, "a", "x", "y")
    member = add(group, "b", "y", "x")
    assert group.select_protocol() == "x"
    add(group, "c", "y", "x")
    assert group.select_protocol() == "y"
    group.update(member, {"x": b"", "y": b""}, 1, 1)
    assert group.select_protocol() == "x"


@given(st.lists(st.permutations(["x", "y", "z"]), min_size=1, max_size=6), st.data())
def test_support_is_counted_right_through_any_changes(favourites: list[list[str]], data: st.DataObject) -> None:
    group = new_group()
    members = [
        add(group, str(number), *names[: data.draw(st.integers(1, 3))]) for number, names in enumerate(favourites)
    ]
    for member in members:
        if data.draw(st.booleans()):
            group.update(member, dict.fromkeys(data.draw(st.permutations(["x", "y", "z"]))[:2], b""), 1, 1)
        if len(group.members) > 1 and data.draw(st.booleans()):
            group.remove(member)
    shared = set.intersection(*(set(member.protocols) for member in group.members.values()))
    group.state, group.protocol_type = ClassicGroupState.STABLE, "consumer"
    for name in ("x", "y", "z"):
        assert group.accepts(joining(protocols={name: b""})) is (name in shared)
    if shared:
        assert group.select_protocol() in shared


def test_an_empty_group_takes_any_protocols_but_none() -> None:
    group = new_group()
    assert group.accepts(joining(protocols={"anything": b""}))
    assert not group.accepts(joining(protocols={}))
    assert not group.accepts(joining()._replace(protocol_type=""))


def test_the_slowest_member_sets_the_pace() -> None:
    group = new_group()
    assert group.rebalance_timeout_ms() == 0
    add(group, "a", rebalance_ms=5)
    add(group, "b", rebalance_ms=9)
    assert group.rebalance_timeout_ms() == 9


def test_generations_grow_with_and_without_members() -> None:
    group = new_group()
    add(group, "a")
    group.transition(GroupEvent.REBALANCE, 10)
    group.next_generation(20)
    assert (group.generation, group.state, group.protocol_name, group.state_since_ms) == (
        1,
        ClassicGroupState.COMPLETING_REBALANCE,
        "range",
        20,
    )
    group.transition(GroupEvent.REBALANCE, 30)
    group.remove(group.members["a"])
    group.next_generation(40)
    assert (group.generation, group.state, group.protocol_name, group.state_since_ms) == (
        2,
        ClassicGroupState.EMPTY,
        None,
        40,
    )


@for_each(
    "prepare, reads_t, reads_u",
    [
        (lambda group: add_subscriber(group, b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"), True, False),
        (lambda group: add_subscriber(group, b"?"), True, True),
        (lambda group: setattr(group, "protocol_type", "consumer"), False, False),
        (lambda group: setattr(group, "protocol_type", "connect"), False, False),
        (lambda group: None, False, False),
    ],
)
def test_topics_that_may_be_read(prepare: Callable[[ClassicGroup], None], reads_t: bool, reads_u: bool) -> None:
    group = new_group()
    prepare(group)
    group.update_subscribed_topics()
    assert (group.reads_topic("t"), group.reads_topic("u")) == (reads_t, reads_u)


def add_subscriber(group: ClassicGroup, metadata: bytes) -> None:
    group.add(ClassicGroupMember("a", joining(protocols={"range": metadata}), deadline()), "consumer")
    group.protocol_name = "range"


def test_the_record_says_what_the_group_is() -> None:
    group = new_group()
    add(group, "a", "range", "rr", instance_id="i")
    group.transition(GroupEvent.REBALANCE, 10)
    group.next_generation(20)
    assert group.record({"a": b"mine", "stranger": b""}) == GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader="a",
        current_state_timestamp=20,
        members=[
            MemberMetadata(
                member_id="a",
                group_instance_id="i",
                client_id="c",
                client_host="/h",
                rebalance_timeout=60_000,
                session_timeout=10_000,
                subscription=b"range",
                assignment=b"mine",
            )
        ],
    )


def test_members_without_a_protocol_can_not_be_taken_over() -> None:
    with pytest.raises(MalformedMessage):
        new_group().restore(GroupMetadataValue(protocol_type="consumer", members=[MemberMetadata(member_id="a")]))
    with pytest.raises(MalformedMessage):
        new_group().restore(GroupMetadataValue(protocol="range", members=[MemberMetadata(member_id="a")]))
