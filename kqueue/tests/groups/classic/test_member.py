from __future__ import annotations

from kqueue.base.promise import Promise
from kqueue.base.timers import Timers
from kqueue.groups.classic.member import ClassicGroupMember, JoinRequest
from kqueue.groups.lazy_timer import LazyTimer

JOINING = JoinRequest("g", "", None, "consumer", {"range": b"1", "rr": b"2"}, 10, 20, "c", "/h")


def new_member(joining: JoinRequest = JOINING) -> ClassicGroupMember:
    return ClassicGroupMember("m", joining, LazyTimer(Timers(), lambda: None))


def test_supports_means_the_same_names_order_and_metadata() -> None:
    member = new_member()
    assert member.supports({"range": b"1", "rr": b"2"})
    assert not member.supports({"rr": b"2", "range": b"1"})
    assert not member.supports({"range": b"1"})
    assert not member.supports({"range": b"1", "rr": b"other"})


def test_votes_for_its_favourite_among_the_candidates() -> None:
    assert new_member().vote({"rr", "range"}) == "range"
    assert new_member().vote({"rr"}) == "rr"


def test_has_metadata_for_the_protocol_chosen() -> None:
    assert new_member().metadata("rr") == b"2"
    assert new_member().metadata(None) == b""


def test_waiting_member_is_excused_unless_it_is_new() -> None:
    member = new_member()
    assert not member.is_excused
    member.join_promise = Promise()
    assert member.is_excused
    member.is_new = True
    assert not member.is_excused
    member.is_new, member.join_promise, member.sync_promise = False, None, Promise()
    assert member.is_excused


def test_member_with_an_instance_id_is_static() -> None:
    assert not new_member().is_static
    assert new_member(JOINING._replace(instance_id="i")).is_static
