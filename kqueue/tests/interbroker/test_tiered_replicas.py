"""Replicas of tiered topics: followers that skip the tier, failovers, lost disks, fencing."""

from __future__ import annotations

import errno
import itertools
import logging
from collections.abc import Iterator

import pytest

from kqueue.base.config_resources import ConfigChange, ConfigOperation, ResourceType
from kqueue.broker.configs.dynamic_configs import ConfigResource
from kqueue.broker.replicas.partition import Partition
from kqueue.storage import MemoryStorage, Storage
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.tests.api.fetch_client import one, request, values, want
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.broker.replicas.test_partition import append
from kqueue.tests.broker.replication import elect
from kqueue.tests.broker.tier.test_tier_manager import alter
from kqueue.tests.broker.tier.tiered_brokers import TIERED, FailingStore, tier_of_members
from kqueue.tests.interbroker.fetching_members import FetchingMembers
from kqueue.tests.tables import for_each
from kqueue.tier.catalog import all_topics
from kqueue.tier.errors import TierUnavailable
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.contract import Object
from kqueue.tier.stores.memory import MemoryTierStore
from kqueue.wire.error_codes import ErrorCode

ROUND_MS = 3000
STORE_NUMBERS = itertools.count()


@pytest.fixture
def store() -> Iterator[FailingStore]:
    with tier_of_members(FailingStore(MemoryTierStore(f"cluster-{next(STORE_NUMBERS)}"))) as shared:
        yield shared


def tiered_members(count: int = 3, **settings: object) -> FetchingMembers:
    """Members with topic t, led by 1, whose segments hold two batches and soon leave the disk."""
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    members = FetchingMembers(count, {**TIERED, "kqueue.tier.url": "tests://cluster", **dotted})
    configs = {"remote.storage.enable": "true", "segment.bytes": "200", "local.retention.bytes": "1"}
    members.topic("t", list(range(1, count + 1)), **configs)
    return members


def fill(members: FetchingMembers, leader: int, begin: int, end: int) -> None:
    for number in range(begin, end):
        append(members.partition(leader), b"v%d" % number)
        members.settle()


def read_all(members: FetchingMembers, node: int, begin: int = 0) -> list[bytes | None]:
    """Return what a consumer reads from an offset on, at this replica."""
    client = SimulatedClient(sim=members[node])
    read: list[bytes | None] = []
    while True:
        started = client.start(request(client, 11, want(offset=begin + len(read))), 11)
        client.sim.settle()
        ((data,),) = [topic.partitions for topic in started.response.responses] or (((None,)),)
        if data is None or not values(data):
            return read
        assert data.error_code == 0
        read += values(data)


def expected(count: int) -> list[bytes]:
    return [b"v%d" % number for number in range(count)]


def bounds(partition: Partition) -> tuple[int, int, int]:
    log = partition.log
    return log.start_offset, log.local_start_offset, log.end_offset


def lose_disk(members: FetchingMembers, node: int, storage: Storage | None = None) -> None:
    """Kill a broker and start it with an empty disk."""
    members.kill(node)
    members._storages[node] = storage or MemoryStorage(members.clock)
    members.peers.pop(node)
    members.start(node)
    members.join(node)
    members.settle()


def stop(members: FetchingMembers, node: int) -> None:
    """Kill a broker, which the others do not reach then."""
    members.kill(node)
    members.peers.pop(node)
    for peers in members.peers.values():
        peers.down.add(node)


def write_alone(members: FetchingMembers, begin: int, end: int) -> None:
    """Broker 2 stops and leaves the in-sync set; broker 1 writes these offsets without it."""
    stop(members, 2)
    members.write(lambda old: old._replace(isr=(1,)))
    fill(members, 1, begin, end)
    members.advance(ROUND_MS)


def elect_behind(members: FetchingMembers) -> None:
    """Broker 1 stops, and broker 2 leads, which lacks what was written without it."""
    stop(members, 1)
    members.start(2)
    members.join(2)
    members.peers[2].down = {1}
    elect(members, 2, 2)


def test_leader_copies_and_followers_free_their_disks_too(store: FailingStore) -> None:
    members = tiered_members()
    fill(members, 1, 0, 20)
    members.advance(ROUND_MS)
    assert [bounds(members.partition(node)) for node in (1, 2, 3)] == [(0, 18, 20)] * 3
    assert [read_all(members, node) for node in (1, 2, 3)] == [expected(20)] * 3
    assert sum("/segments/" in entry.key for entry in store.store.list("topics")) == 9


@for_each("skips", [False, True])
def test_follower_with_an_empty_disk_begins_at_the_local_start_of_its_leader(store: FailingStore, skips: bool) -> None:
    members = tiered_members(2, follower_fetch_last_tiered_offset_enable=skips)
    fill(members, 1, 0, 20)
    members.advance(ROUND_MS)
    lose_disk(members, 2)
    members.advance(ROUND_MS)
    assert bounds(members.partition(2)) == (0, 18, 20)
    one, two = members.partition(1).log, members.partition(2).log
    assert one.epochs.entries() == two.epochs.entries()
    assert [producer for producer, _ in one.producers.items()] == [producer for producer, _ in two.producers.items()]
    fill(members, 1, 20, 24)
    members.advance(ROUND_MS)
    assert members.partition(1).high_watermark == 24
    elect(members, 2, 2)
    members.advance(ROUND_MS)
    assert read_all(members, 2) == expected(24)


@pytest.mark.parametrize(
    ("file", "kind"), [(".snapshot", "append"), ("18.log", "create"), ("leader-epoch-checkpoint", "append")]
)
def test_follower_skips_the_tier_when_its_full_disk_has_room_again(store: FailingStore, file: str, kind: str) -> None:
    members = tiered_members(2)
    fill(members, 1, 0, 20)
    members.advance(ROUND_MS)
    storage = FaultyStorage(clock=members.clock)
    storage.fail(kind, lambda path: path.startswith("t-0/") and file in path, number=errno.ENOSPC)
    lose_disk(members, 2, storage)
    members.advance(ROUND_MS)
    storage.mend()
    members.advance(ROUND_MS)
    assert bounds(members.partition(2)) == (0, 18, 20)
    fill(members, 1, 20, 24)
    members.advance(ROUND_MS)
    elect(members, 2, 2)
    members.advance(ROUND_MS)
    assert read_all(members, 2) == expected(24)
    assert members.partition(2).log.epochs.entries()[0] == (0, 0), "the tier knows the epochs that were not written"


def test_new_leader_goes_on_copying_where_the_former_stopped(store: FailingStore) -> None:
    members = tiered_members()
    fill(members, 1, 0, 9)
    members.advance(ROUND_MS)
    for round_number, leader in enumerate((2, 3, 1), start=1):
        elect(members, leader)
        fill(members, leader, 9 * round_number, 9 * round_number + 9)
        members.advance(ROUND_MS)
    members.advance(ROUND_MS)
    assert [read_all(members, node) for node in (1, 2, 3)] == [expected(36)] * 3
    assert members.partition(1).log.tiered_end >= 34


def test_deposed_leader_that_does_not_know_it_changes_nothing(store: FailingStore) -> None:
    members = tiered_members()
    fill(members, 1, 0, 9)
    members.advance(ROUND_MS)
    fill(members, 1, 9, 15)
    members[1].jobs.held = "tier copies"
    members.advance(ROUND_MS)
    elect(members, 2)
    fill(members, 2, 15, 20)
    members.advance(ROUND_MS)
    root = members[2].broker.tier.host.state_of(members.partition(2)).manifest.root  # type: ignore[union-attr]
    members[1].jobs.release()
    members.settle()
    members.advance(ROUND_MS)
    manifest = members[2].broker.tier.host.state_of(members.partition(2)).manifest  # type: ignore[union-attr]
    assert manifest.refresh().leader_epoch == root.leader_epoch
    assert [read_all(members, node) for node in (1, 2, 3)] == [expected(20)] * 3


def test_records_that_an_unclean_election_loses_leave_the_tier_too(store: FailingStore) -> None:
    members = tiered_members(2)
    fill(members, 1, 0, 9)
    members.advance(ROUND_MS)
    write_alone(members, 9, 20)
    assert members.partition(1).log.tiered_end == 18
    elect_behind(members)
    assert members.partition(2).log_end_offset == 9
    for number in range(9, 13):
        append(members.partition(2), b"new%d" % number)
        members.settle()
    members.advance(ROUND_MS)
    new = [b"new%d" % number for number in range(9, 13)]
    assert read_all(members, 2) == expected(9) + new
    members.start(1)
    members.join(1)
    members.peers[2].down.clear()
    members.advance(ROUND_MS)
    assert members.partition(1).log_end_offset == 13
    elect(members, 1)
    members.advance(ROUND_MS)
    assert read_all(members, 1) == expected(9) + new


def test_leader_of_one_segment_cuts_what_the_tier_has_of_a_lost_leader(store: FailingStore) -> None:
    members = tiered_members(2)
    fill(members, 1, 0, 1)
    members.advance(ROUND_MS)
    write_alone(members, 1, 20)
    elect_behind(members)
    members.advance(ROUND_MS)
    assert bounds(members.partition(2)) == (0, 0, 1)
    assert len(members.partition(2).log.segments) == 1
    (topic,) = all_topics(store, ())
    assert Manifest.open(store, topic.partition(0)).end_offset == 1, "who reads the tier without brokers sees the same"


def elected_back(new: int) -> FetchingMembers:
    """Broker 2 was elected uncleanly without offsets 9 to 19 and wrote `new` others, then broker 1,
    whose disk begins at 18.
    """
    members = tiered_members(2)
    fill(members, 1, 0, 9)
    members.advance(ROUND_MS)
    write_alone(members, 9, 20)
    elect_behind(members)
    for number in range(9, 9 + new):
        append(members.partition(2), b"new%d" % number)
        members.settle()
    members.advance(ROUND_MS)
    stop(members, 2)
    members.start(1)
    members.join(1)
    members.peers[1].down = {2}
    elect(members, 1, 1)
    members.advance(ROUND_MS)
    return members


@pytest.mark.parametrize("new", [0, 4, 21])
def test_leader_of_an_opposite_unclean_election_goes_on_once_the_lost_records_are_given_up(
    store: FailingStore, caplog: pytest.LogCaptureFixture, new: int
) -> None:
    members = elected_back(new)
    partition = members.partition(1)
    assert bounds(partition) == (0, 18, 20)
    (line,) = [line for line in caplog.records if "what is between is lost" in line.getMessage()]
    assert line.levelno == logging.ERROR
    fill(members, 1, 20, 26)
    members.advance(ROUND_MS)
    assert partition.log.tiered_end == 0
    assert read_all(members, 1, 18) == expected(26)[18:]
    broker = members[1].broker
    assert members.result(broker.upkeep.deletion.delete_before(broker.topics.get("t"), 0, 18)) == 18
    members.advance(2 * ROUND_MS)
    assert bounds(partition)[::2] == (18, 26)
    assert partition.log.tiered_end >= 24
    assert read_all(members, 1, 18) == expected(26)[18:]
    (segments,) = [list(Manifest.open(store, topic.partition(0)).segments()) for topic in all_topics(store, ())]
    assert segments[0].start_offset == 18
    assert all(one.end_offset == other.start_offset for one, other in itertools.pairwise(segments))
    members.start(2)
    members.join(2)
    members.peers[1].down.clear()
    members.advance(ROUND_MS)
    assert read_all(members, 2, 18) == expected(26)[18:]


def test_leader_deletes_nothing_here_by_what_it_knew_of_the_tier_in_an_earlier_epoch(store: FailingStore) -> None:
    members = tiered_members(2)
    alter(members[1], local_retention_bytes="700")
    fill(members, 1, 0, 9)
    stop(members, 2)
    members.write(lambda old: old._replace(isr=(1,)))
    fill(members, 1, 9, 24)
    members.advance(ROUND_MS)
    log = members.partition(1).log
    start = log.local_start_offset
    assert 9 < start < log.tiered_end
    members.peers[1].down = {2}
    members[1].jobs.held = "tier follows"
    members.start(2)
    members.join(2)
    members.peers[2].down = {1}
    elect(members, 2, 2)
    append(members.partition(2), b"new9")
    members.settle()
    members.advance(ROUND_MS)
    elect(members, 1, 1)
    alter(members[1], local_retention_bytes="1")
    members.advance(2 * ROUND_MS)
    assert log.local_start_offset == start, "the tier does not have it any more"
    assert read_all(members, 1, start) == expected(24)[start:]


def test_leader_serves_no_record_of_the_tier_that_its_log_contradicts(store: FailingStore) -> None:
    members = elected_back(21)
    client = SimulatedClient(sim=members[1])
    assert read_values(client, 0) == expected(9)[:2]
    assert read_values(client, 8) == expected(9)[8:]
    assert read_values(client, 9) == ErrorCode.CORRUPT_MESSAGE
    assert read_values(client, 15) == ErrorCode.CORRUPT_MESSAGE
    assert read_values(client, 18) == expected(20)[18:]


def read_values(client: SimulatedClient, offset: int) -> list[bytes | None] | int:
    """Return the values of one fetch, or its error."""
    started = client.start(request(client, 11, want(offset=offset)), 11)
    client.sim.settle()
    data = one(started.response)
    return data.error_code or values(data)


def test_follower_restarts_from_the_tier_only_when_its_leader_has_claimed_it(store: FailingStore) -> None:
    members = elected_back(21)
    members._storages[2] = MemoryStorage(members.clock)
    members.start(2)
    members.join(2)
    members.peers[1].down.clear()
    members.advance(ROUND_MS)
    assert bounds(members.partition(2)) == (0, 0, 0), "the tier has epochs of another lineage"
    broker = members[1].broker
    members.result(broker.upkeep.deletion.delete_before(broker.topics.get("t"), 0, 18))
    members.advance(ROUND_MS)
    assert bounds(members.partition(2))[::2] == (18, 20)
    assert members.partition(2).log.epochs.entries() == members.partition(1).log.epochs.entries()


def test_unclean_leader_goes_on_below_offsets_that_have_expired_in_the_tier(store: FailingStore) -> None:
    members = tiered_members(2)
    fill(members, 1, 0, 9)
    members.advance(ROUND_MS)
    write_alone(members, 9, 20)
    broker = members[1].broker
    members.result(broker.upkeep.deletion.delete_before(broker.topics.get("t"), 0, 19))
    members.advance(ROUND_MS)
    assert not [entry for entry in store.store.list("topics") if "/segments/" in entry.key]
    elect_behind(members)
    for number in range(9, 30):
        append(members.partition(2), b"new%d" % number)
        members.settle()
    members.advance(ROUND_MS)
    members.advance(ROUND_MS)
    log = members.partition(2).log
    assert (log.start_offset, log.tiered_end) == (9, 28)
    assert read_all(members, 2, 9) == [b"new%d" % number for number in range(9, 30)]


def test_follower_keeps_what_the_tier_has_of_a_lost_leader_only(store: FailingStore) -> None:
    members = tiered_members()
    fill(members, 1, 0, 9)
    members.advance(ROUND_MS)
    for node in (2, 3):
        stop(members, node)
    members.write(lambda old: old._replace(isr=(1,)))
    fill(members, 1, 9, 20)
    members.advance(ROUND_MS)
    assert members.partition(1).log.tiered_end == 18
    stop(members, 1)
    for node in (2, 3):
        members.start(node)
        members.join(node)
        members.peers[node].down = {1}
    members[2].jobs.held = "tier"  # it leads, and can't tell the tier so
    elect(members, 2, 2)
    for number in range(9, 30):
        append(members.partition(2), b"new%d" % number)
        members.settle()
    members.advance(ROUND_MS)
    assert members.partition(3).log_end_offset == 30
    assert members.partition(3).log.local_start_offset <= 9
    stop(members, 2)
    members.peers[3].down.add(2)
    elect(members, 3, 3)
    members.advance(ROUND_MS)
    assert read_all(members, 3) == expected(9) + [b"new%d" % number for number in range(9, 30)]


def test_follower_that_is_cut_while_it_reads_the_manifest_keeps_what_comes_next(store: FailingStore) -> None:
    members = tiered_members(2)
    alter(members[1], **{"local.retention.bytes": "-2"})
    fill(members, 1, 0, 20)
    members.advance(ROUND_MS)
    log = members.partition(2).log
    assert (log.tiered_end, log.local_start_offset) == (18, 0)
    members.peers[2].down.add(1)
    members[2].jobs.held = "tier follows"
    members.advance(1500)
    log.truncate_to(9)  # within the epoch of all its records
    members[2].jobs.release()
    members.settle()
    assert log.tiered_end == 9


def test_sole_replica_with_an_empty_disk_goes_on_from_the_tier(store: FailingStore) -> None:
    members = tiered_members(1)
    fill(members, 1, 0, 20)
    members.advance(ROUND_MS)
    stop(members, 1)
    members._storages[1] = MemoryStorage(members.clock)
    store.error = TierUnavailable("no route")
    elect(members, 1, 1)
    members.start(1)
    members.join(1)
    members.advance(ROUND_MS)
    assert members.partition(1).is_open is False
    store.error = None
    members.advance(ROUND_MS)
    assert bounds(members.partition(1)) == (0, 18, 18)
    fill(members, 1, 18, 22)
    members.advance(ROUND_MS)
    assert read_all(members, 1) == expected(22)


def test_leader_without_a_record_that_is_elected_again_still_waits_for_the_tier(
    store: FailingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = tiered_members(1)
    fill(members, 1, 0, 20)
    members.advance(ROUND_MS)
    stop(members, 1)
    members._storages[1] = MemoryStorage(members.clock)
    elect(members, 1, 1)
    get = store.get

    def without_manifests(key: str, *, max_bytes: int) -> Object:
        if key.endswith("manifest"):
            raise TierUnavailable("no route")
        return get(key, max_bytes=max_bytes)

    with monkeypatch.context() as patch:
        patch.setattr(store, "get", without_manifests)
        members.start(1)
        members.join(1)
        members.advance(100)
    members[1].jobs.held = "tier manifests"
    members.advance(ROUND_MS)
    elect(members, 1, 1)
    assert members[1].jobs.release() == 1
    members.advance(ROUND_MS)
    assert bounds(members.partition(1)) == (0, 18, 18)
    assert read_all(members, 1) == expected(18)


def test_follower_that_is_elected_before_it_copied_anything_goes_on_from_the_tier(store: FailingStore) -> None:
    members = tiered_members(2)
    fill(members, 1, 0, 20)
    members.advance(ROUND_MS)
    stop(members, 2)
    members.write(lambda old: old._replace(isr=(1,)))
    members._storages[2] = MemoryStorage(members.clock)
    members.start(2)
    assert bounds(members.partition(2)) == (0, 0, 0)
    stop(members, 1)
    members.join(2)
    members.peers[2].down = {1}
    elect(members, 2, 2)
    members.advance(ROUND_MS)
    assert bounds(members.partition(2)) == (0, 18, 18)
    leadership = members.partition(2).replica.leadership
    assert leadership is not None
    assert (leadership.leso, leadership.high_watermark) == (18, 18), "not those of the empty log"
    fill(members, 2, 18, 22)
    assert read_all(members, 2) == expected(22)


def test_leader_that_knows_too_little_is_committed_raises_its_log_start_later(store: FailingStore) -> None:
    members = tiered_members(2, remote_log_manager_task_interval_ms=500)
    fill(members, 1, 0, 20)
    members.advance(ROUND_MS)
    members[1].broker.upkeep.deletion.delete_before(members[1].broker.topics.get("t"), 0, 19)
    members.advance(ROUND_MS)
    follower = members.partition(2)
    follower.watermark.value = 17  # as after a crash, which its checkpoint outlived
    follower.log.start_offset = 5
    follower.log.note_local_start()
    members.peers[1].down.add(2)
    elect(members, 2)
    members.advance(200)
    assert members.partition(2).log.start_offset == 17
    members.peers[1].down.clear()
    members.advance(ROUND_MS)
    assert members.partition(2).log.start_offset == 19


def test_offsets_of_a_log_that_retention_has_emptied_are_not_used_again_after_a_crash(store: FailingStore) -> None:
    members = tiered_members(1)
    fill(members, 1, 0, 10)
    members.advance(ROUND_MS)
    configs = {"retention.ms": "5000", "local.retention.bytes": "-2", "remote.log.copy.disable": "true"}
    alter(members[1], **configs)
    fill(members, 1, 10, 16)
    store.error = TierUnavailable("no route")
    members.advance(3 * ROUND_MS)
    assert members.partition(1).log.local_start_offset == 16
    store.error = None
    members.kill(1)
    members.start(1, recovers=False)
    elect(members, 1, 1)
    members.join(1)
    members.advance(ROUND_MS)
    assert bounds(members.partition(1)) == (16, 16, 16)


def test_follower_that_began_again_behind_deleted_records_starts_there_after_a_crash(store: FailingStore) -> None:
    members = tiered_members(2)
    store.error = TierUnavailable("no route")
    fill(members, 1, 0, 20)
    members.result(members[1].broker.upkeep.deletion.delete_before(members[1].broker.topics.get("t"), 0, 9))
    lose_disk(members, 2)
    members.advance(500)
    assert bounds(members.partition(2))[::2] == (9, 20)
    stop(members, 2)
    stop(members, 1)
    store.error = None
    members.start(2)
    members.join(2)
    members.peers[2].down = {1}
    elect(members, 2, 2)
    members.advance(ROUND_MS)
    assert bounds(members.partition(2)) == (9, 19, 20), "none of what was deleted is missing in the tier"
    assert read_all(members, 2, 9) == expected(20)[9:]


def test_topic_that_is_tiered_no_more_starts_with_the_disk_of_its_leader_and_leaves_the_tier(
    store: FailingStore,
) -> None:
    members = tiered_members()
    fill(members, 1, 0, 20)
    members.advance(ROUND_MS)
    store.error = TierUnavailable("no route")
    changes = [
        ConfigChange(ConfigOperation.SET, "remote.storage.enable", "false"),
        ConfigChange(ConfigOperation.SET, "remote.log.delete.on.disable", "true"),
    ]
    members.result(members[1].broker.configs.alter(ConfigResource(ResourceType.TOPIC, "t"), changes))
    members.advance(ROUND_MS)
    assert [bounds(members.partition(node)) for node in (1, 2, 3)] == [(18, 18, 20)] * 3
    stop(members, 1)
    store.error = None
    elect(members, 2, 2, 3)
    members.advance(ROUND_MS)
    assert not [entry.key for entry in store.store.list("topics") if not entry.key.endswith("topic.json")]


def test_deleted_topic_leaves_the_tier_and_the_brokers(store: FailingStore) -> None:
    members = tiered_members()
    fill(members, 1, 0, 10)
    members.advance(ROUND_MS)
    members.result(members[2].broker.topics.delete("t"))
    members.advance(ROUND_MS)
    assert not list(store.store.list("topics"))
    assert not members[1].broker.metadata.cache.with_prefix("/deleted_topics/")
