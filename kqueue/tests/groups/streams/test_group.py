from __future__ import annotations

from kqueue.groups.log.changes import Changes
from kqueue.groups.modern.assignment import CurrentAssignment, ModernMemberState
from kqueue.groups.modern.records import GroupEpoch
from kqueue.groups.streams.group import StreamsGroup
from kqueue.groups.streams.member import MemberEndpoint, StreamsMemberMetadata
from kqueue.tests.groups.streams.applications import A1, COUNT, S1
from kqueue.tests.groups.support import unlimited


def filled(changes: Changes) -> StreamsGroup:
    """``m`` and ``n`` run in one process, ``o`` in another."""
    group = StreamsGroup("g", unlimited())
    group.set_topology(changes, COUNT)
    for member_id, process_id in (("m", "p"), ("n", "p"), ("o", "q")):
        metadata = StreamsMemberMetadata(process_id=process_id, endpoint=MemberEndpoint("h", 1), tags=(("k", "v"),))
        group.put_metadata(changes, member_id, metadata)
    group.put_current(changes, "m", CurrentAssignment(2, 1, assigned={A1: {0: 2}}, revoking={A1: {1: 2}}))
    group.put_current(changes, "o", CurrentAssignment(2, 1, assigned={S1: {0: 2}, A1: {2: 2}}))
    group.put_target(changes, "m", {A1: frozenset({0})})
    group.set_epoch(changes, GroupEpoch(2, 7, 0, (("num.standby.replicas", "1"),)))
    group.set_target_epoch(changes, 2, 1000)
    return group


def test_an_active_task_waits_for_all_and_a_copy_for_its_process() -> None:
    group = filled(Changes())
    assert group.is_unreleased("q", A1, 0), "another member has it"
    assert group.is_unreleased("q", A1, 1), "another member still revokes it"
    assert group.is_unreleased("p", S1, 0), "its process has the active task"
    assert not group.is_unreleased("p", S1, 2)
    assert group.is_unreleased("q", A1, 2)
    assert group.is_unreleased("q", S1, 2)
    assert not group.is_unreleased("q", S1, 3)
    assert not group.is_unreleased("q", A1, 3)
    assert group.holders(S1, 0) == {"o"}


def test_the_state_follows_from_the_records() -> None:
    group = filled(Changes())
    assert group.state.value == "Reconciling"
    group.put_current(Changes(), "m", CurrentAssignment(2, 1))
    group.put_current(Changes(), "n", CurrentAssignment(2, 1))
    assert group.state.value == "Stable"
    group.put_current(Changes(), "n", CurrentAssignment(2, 1, ModernMemberState.UNRELEASED_PARTITIONS))
    assert group.state.value == "Reconciling"
    group.set_epoch(Changes(), GroupEpoch(3, 7, 0, ()))
    assert group.state.value == "Assigning"
    group.set_epoch(Changes(), GroupEpoch(4, 7, -1, ()))
    assert group.state.value == "NotReady"
    for member_id in "mno":
        group.remove_member(Changes(), member_id)
    assert group.state.value == "Empty"
    group.is_dead = True
    assert group.state.value == "Dead"


def test_topics_are_read_while_there_are_members() -> None:
    group = filled(Changes())
    assert [group.reads_topic(topic) for topic in ("t", "app-words", "app-counts")] == [True, True, False]
    assert (group.subtopology_of("app-words"), group.subtopology_of("x")) == ("1", None)
    for member_id in "mno":
        group.remove_member(Changes(), member_id)
    assert not group.reads_topic("t")
