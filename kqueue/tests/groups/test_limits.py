"""Each bound on what clients can make the coordinator keep is reached here."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kqueue.base.errors import GroupMaxSizeReached, KqueueError, UnknownMember
from kqueue.base.slice_queue import STEPS_PER_LOOK
from kqueue.groups import config
from kqueue.groups.classic.group import ClassicGroup
from kqueue.groups.errors import InvalidCommitOffsetSize, InvalidGroupId
from kqueue.groups.offsets.offset_manager import OffsetToCommit
from kqueue.groups.streams.topology import Topology
from kqueue.tests.groups.streams.applications import COUNT, beat, new_world
from kqueue.tests.groups.support import RANGE, HeldLog, World

BIG = {"range": b"x" * 1000}


def commit(world: World, group_id: str, metadata: str = "", partition: int = 0) -> list[KqueueError | None]:
    return list(world.groups.commit(group_id, -1, "", None, [OffsetToCommit("t", partition, 1, -1, metadata)]).result())


def too_many_groups() -> None:
    world = World(kqueue_max_groups=3)
    for number in range(3):
        commit(world, f"g{number}")
    commit(world, "g0")
    for join_or_commit in (lambda: world.join("g3"), lambda: commit(world, "g3")):
        with pytest.raises(GroupMaxSizeReached, match="kqueue.max.groups"):
            join_or_commit()
    world.join("g0")


def too_much_in_a_group() -> None:
    world = World(kqueue_max_group_bytes=2500)
    world.join(protocols=BIG)
    world.join(protocols=BIG)
    with pytest.raises(GroupMaxSizeReached, match="kqueue.max.group.bytes"):
        world.join(protocols=BIG)
    world.join("other", protocols=BIG)


def too_much_in_all_groups() -> None:
    world = World(kqueue_max_groups_bytes=2500)
    first = world.stable(protocols=BIG)[0]
    world.join("g1", protocols=BIG)
    with pytest.raises(GroupMaxSizeReached, match="kqueue.max.groups.bytes"):
        world.join("g2", protocols=BIG)
    world.join("g", first.member_id, protocols=BIG)  # what is there already goes on
    with pytest.raises(GroupMaxSizeReached):
        world.join("g", first.member_id, protocols={"range": b"x" * 1600})
    world.advance(400_000)  # all sessions end
    world.join("g2", protocols=BIG)


def too_many_unused_ids() -> None:
    world = World(kqueue_max_pending_members=2)
    ids = []
    for number in range(3):
        with pytest.raises(KqueueError) as refusal:
            world.join(f"g{number}", id_required=True)
        ids.append(refusal.value.member_id)  # type: ignore[attr-defined]
    with pytest.raises(UnknownMember):
        world.join("g0", ids[0], id_required=True)
    for number in (1, 2):
        world.join(f"g{number}", ids[number], id_required=True)


def too_many_offsets() -> None:
    world = World(kqueue_max_offsets_bytes=1000)
    assert commit(world, "g0", "x" * 500) == [None]
    (refused,) = commit(world, "g1", "x" * 500)
    assert isinstance(refused, InvalidCommitOffsetSize)
    assert "kqueue.max.offsets.bytes" in str(refused)
    assert commit(world, "g1") == [None], "a small one still fits"
    assert commit(world, "g0", "y" * 500) == [None], "so does one in the place of another"
    world.groups.delete("g0").result()
    assert commit(world, "g1", "x" * 500) == [None]


def too_many_patterns() -> None:
    world = World(kqueue_max_group_patterns=2)
    for number in range(2):
        world.consume(f"m{number}", regex=f"t{number}.*")
    with pytest.raises(GroupMaxSizeReached, match="kqueue.max.group.patterns"):
        world.consume("m2", regex="t2.*")
    world.consume("m2", regex="t1.*")


def too_many_tasks() -> None:
    world = new_world(kqueue_max_group_tasks=8)
    beat(world)
    with pytest.raises(GroupMaxSizeReached, match="kqueue.max.group.tasks"):
        beat(world, "n", topology=Topology(0, COUNT.subtopologies * 2))
    beat(world, "n")


CASES: dict[str, Callable[[], None]] = {
    "kqueue.max.groups": too_many_groups,
    "kqueue.max.group.bytes": too_much_in_a_group,
    "kqueue.max.groups.bytes": too_much_in_all_groups,
    "kqueue.max.pending.members": too_many_unused_ids,
    "kqueue.max.offsets.bytes": too_many_offsets,
    "kqueue.max.group.patterns": too_many_patterns,
    "kqueue.max.group.tasks": too_many_tasks,
}


def test_every_bound_of_groups_has_a_case() -> None:
    assert {row.name for row in config.SETTINGS if row.name.startswith("kqueue.max.")} == CASES.keys()


@pytest.mark.parametrize("setting", CASES)
def test_a_bound_is_reached_and_what_was_there_goes_on(setting: str, caplog: pytest.LogCaptureFixture) -> None:
    CASES[setting]()
    lines = [record for record in caplog.records if setting in record.getMessage()]
    assert len(lines) == 1, "one line per minute"


def test_counters_return_to_zero_when_all_is_removed() -> None:
    world = World()
    world.stable(3, protocols=BIG)
    commit(world, "h", "metadata")
    assert world.groups.limits.member_bytes == 3 * 1011
    again = world.restarted()
    assert again.groups.limits.member_bytes == 3 * 1011
    assert again.groups.limits.offset_bytes == world.groups.limits.offset_bytes > 0
    for one in (world, again):
        one.groups.delete("h").result()
        one.advance(700_000)
        assert (one.groups.limits.member_bytes, one.groups.limits.offset_bytes) == (0, 0)


def test_a_group_whose_first_record_is_lost_counts_no_longer() -> None:
    world = World(HeldLog())
    world.log.hold = True
    world.join(protocols=BIG)
    world.log.fail(KqueueError("EIO"))
    assert world.groups.limits.member_bytes == 0


def test_a_new_groups_id_is_bounded() -> None:
    world = World()
    for join_or_commit in (lambda: world.join("g" * 1001), lambda: commit(world, "g" * 1001)):
        with pytest.raises(InvalidGroupId):
            join_or_commit()
    commit(world, "g" * 1000)


def test_an_id_holds_no_more_of_a_clients_name_than_it_needs() -> None:
    world = World()
    with pytest.raises(KqueueError) as refusal:
        world.join(instance_id=None, id_required=True, protocols=RANGE)
    assert len(refusal.value.member_id) < 300  # type: ignore[attr-defined]


def test_expiry_looks_at_some_groups_in_each_turn() -> None:
    """Each look takes 10 ms here, so others have their turn between."""
    world = World(offsets_retention_minutes=1, offsets_retention_check_interval_ms=600_000)
    for number in range(100):
        commit(world, f"g{number}")
    looks: list[str] = []
    expired = world.groups._offsets.store.expired

    def slow(group: ClassicGroup, now_ms: int, retention_ms: int) -> set[tuple[str, int]]:
        looks.append(group.group_id)
        world.clock.advance(10)
        return expired(group, now_ms, retention_ms)

    world.groups._offsets.store.expired = slow  # type: ignore[method-assign]
    world.clock.advance(600_000)
    world.timers.run_due(world.clock.monotonic_ms())
    assert 0 < len(looks) <= STEPS_PER_LOOK
    while len(world.groups.groups()):
        world.timers.run_due(world.clock.monotonic_ms())
    assert len(looks) == 100
