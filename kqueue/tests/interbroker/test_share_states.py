"""Share groups whose partitions are led by one broker, and whose states another one has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kqueue.base.errors import CoordinatorNotAvailable, FencedLeaderEpoch, FencedStateEpoch, KqueueError
from kqueue.broker.topics.topics import SHARE_TOPIC
from kqueue.groups.share.records import StateTopic
from kqueue.interbroker.errors import PeerUnavailable
from kqueue.share.coordinator import ShareCoordinator
from kqueue.share.record_state import RecordState
from kqueue.share.share_state import UNCHANGED, SharePartitionKey, ShareState, ShareUpdate
from kqueue.share.state_batches import StateBatch
from kqueue.tests.api.harness import PendingRequest, batch
from kqueue.tests.interbroker.simulated_peers import Member, SimulatedCluster
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages import read_share_group_state, share_acknowledge, share_fetch

SETTINGS = {"share.coordinator.state.topic.num.partitions": 1}
LEADER, COORDINATOR = 1, 2


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Broker 1 leads ``t-0``, broker 2 has all states."""
    cluster = SimulatedCluster(3, SETTINGS)
    cluster.create("t", LEADER)
    cluster.create(SHARE_TOPIC, COORDINATOR)
    return cluster


def key_of(cluster: SimulatedCluster, group: str = "g") -> SharePartitionKey:
    return SharePartitionKey(group, cluster.members[LEADER].sim.broker.topics.get("t").id, 0)


def state(cluster: SimulatedCluster) -> ShareState | None:
    return cluster.members[COORDINATOR].sim.broker.share.coordinator.read(key_of(cluster))


def initialize(cluster: SimulatedCluster, node_id: int = LEADER) -> list[KqueueError | None]:
    answers: list[KqueueError | None] = []
    topics = {key_of(cluster).topic_id: StateTopic("t", frozenset({0}))}
    cluster.members[node_id].sim.broker.share.initialize("g", topics, 1, answers.append)
    cluster.settle()
    return answers


def begin(cluster: SimulatedCluster) -> None:
    """Let the group begin at the first record."""
    assert initialize(cluster) == [None]
    answers: list[KqueueError | None] = []
    cluster.members[LEADER].sim.broker.share.states.initialize(key_of(cluster), 1, 0, answers.append)
    cluster.settle()
    assert answers == [None]


class Consumer:
    """A member of group ``g`` at the leader of ``t-0``."""

    def __init__(self, cluster: SimulatedCluster, node_id: int = LEADER) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.epoch = 0
        self.id = key_of(cluster).topic_id

    def start(self) -> PendingRequest:
        """Begin a fetch."""
        topics = [share_fetch.FetchTopic(topic_id=self.id, partitions=[share_fetch.FetchPartition(partition_index=0)])]
        request = share_fetch.ShareFetchRequest(
            group_id="g",
            member_id="m",
            share_session_epoch=self.epoch,
            topics=topics if self.epoch == 0 else [],
            max_wait_ms=10_000,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=500,
            batch_size=500,
        )
        self.epoch += 1
        return self.cluster.members[self.node_id].start(request, 1, connection=self)

    def fetch(self) -> Any:
        """The response to a fetch; None: there is none yet."""
        started = self.start()
        for _ in range(50):
            self.cluster.settle()
            if started.response is not None:
                return started.response
            self.cluster.advance(100)
        return None

    def acquired(self) -> list[tuple[int, int, int]]:
        response = self.fetch()
        return [
            (each.first_offset, each.last_offset, each.delivery_count)
            for topic in response.responses
            for partition in topic.partitions
            for each in partition.acquired_records
        ]

    def acknowledge(self, first: int, last: int, types: Sequence[int]) -> int:
        started = self.start_acknowledge(first, last, types)
        self.cluster.settle()
        return int(started.response.responses[0].partitions[0].error_code)

    def start_acknowledge(self, first: int, last: int, types: Sequence[int]) -> PendingRequest:
        acknowledged = share_acknowledge.AcknowledgementBatch(
            first_offset=first, last_offset=last, acknowledge_types=list(types)
        )
        partition = share_acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=[acknowledged])
        request = share_acknowledge.ShareAcknowledgeRequest(
            group_id="g",
            member_id="m",
            share_session_epoch=self.epoch,
            topics=[share_acknowledge.AcknowledgeTopic(topic_id=self.id, partitions=[partition])],
        )
        self.epoch += 1
        return self.cluster.members[self.node_id].start(request, 1)


def append(member: Member, *values: bytes) -> None:
    assert member.produce("t", batch(*values)).error_code == 0


def test_a_group_reads_where_its_states_are_elsewhere(cluster: SimulatedCluster) -> None:
    begin(cluster)
    leader = cluster.members[LEADER]
    consumer = Consumer(cluster)
    append(leader, b"0", b"1", b"2", b"3")
    assert consumer.acquired() == [(0, 3, 1)]
    assert consumer.acknowledge(0, 3, [1, 2, 1, 1]) == 0
    persisted = state(cluster)
    assert persisted is not None
    assert persisted.start_offset == 1
    assert [(one.first, one.last, one.state) for one in persisted.batches] == [
        (1, 1, RecordState.AVAILABLE),
        (2, 3, RecordState.ACKNOWLEDGED),
    ]
    assert persisted.leader_epoch == leader.sim.broker.topics.partition("t", 0).leader_epoch
    assert len(leader.sim.broker.share.coordinator) == 0, "nothing of it is here"


def test_the_next_leader_goes_on_and_the_former_one_is_fenced(cluster: SimulatedCluster) -> None:
    begin(cluster)
    leader = cluster.members[LEADER]
    append(leader, b"0", b"1")
    consumer = Consumer(cluster)
    assert consumer.acquired() == [(0, 1, 1)]
    former = leader.sim.broker.share
    opened = former.find("g", key_of(cluster).topic_id, 0)
    assert opened is not None
    share, locks = opened.share, former.locks
    assert share is not None
    assert locks.count == 2
    cluster.lead("t", 0, 3)
    assert former.find("g", key_of(cluster).topic_id, 0) is None
    assert locks.count == 0
    append(cluster.members[3], b"0", b"1")
    other = Consumer(cluster, 3)
    assert other.acquired() == [(0, 1, 1)]
    assert other.acknowledge(0, 0, [1]) == 0
    answers: list[KqueueError | None] = []
    former.states.write(key_of(cluster), 1, opened._leader_epoch, ShareUpdate(2, ()), answers.append)
    cluster.settle()
    assert type(answers[0]) is FencedLeaderEpoch
    assert state(cluster).start_offset == 1  # type: ignore[union-attr]
    response = consumer.fetch()
    codes = [partition.error_code for topic in response.responses for partition in topic.partitions]
    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_leader_that_leads_again_begins_with_what_is_persisted(cluster: SimulatedCluster) -> None:
    begin(cluster)
    append(cluster.members[LEADER], b"0", b"1")
    consumer = Consumer(cluster)
    assert consumer.acquired() == [(0, 1, 1)]
    cluster.lead("t", 0, LEADER)
    consumer.epoch = 0
    assert consumer.acquired() == [(0, 1, 1)], "what was acquired is available again"


def test_a_share_coordinator_that_moves_is_asked_again(cluster: SimulatedCluster) -> None:
    begin(cluster)
    leader = cluster.members[LEADER]
    leader.peers.down.add(COORDINATOR)
    append(leader, b"0")
    consumer = Consumer(cluster)
    waiting = consumer.start()
    cluster.advance(300)
    assert waiting.response is None
    leader.peers.down.clear()
    cluster.advance(300)
    assert waiting.response is not None
    consumer.epoch = 0
    leader.sim.broker.share.close(key_of(cluster))
    assert consumer.acquired() == [(0, 0, 1)]
    leader.peers.down.add(COORDINATOR)
    acknowledged = consumer.start_acknowledge(0, 0, [1])
    cluster.advance(800)
    assert (acknowledged.response, state(cluster).start_offset) == (None, 0)  # type: ignore[union-attr]
    leader.peers.down.clear()
    cluster.advance(400)
    assert acknowledged.response.responses[0].partitions[0].error_code == 0
    assert state(cluster).start_offset == 1  # type: ignore[union-attr]


def test_a_share_coordinator_that_stays_away_is_an_error_after_five_attempts(cluster: SimulatedCluster) -> None:
    begin(cluster)
    leader, answers = cluster.members[LEADER], list[Any]()
    leader.peers.down.add(COORDINATOR)
    leader.peers.requests.clear()
    leader.sim.broker.share.states.delete(key_of(cluster), answers.append)
    cluster.advance(14_000)
    assert answers == []
    cluster.advance(2000)
    assert [type(error) for error in answers] == [CoordinatorNotAvailable]
    assert len(leader.peers.requests) == 5


def test_the_end_of_a_partition_is_that_of_its_leader(cluster: SimulatedCluster) -> None:
    """KIP-1226: a group's lag can be asked of a broker that does not lead the partition."""
    append(cluster.members[LEADER], b"0", b"1")
    other = cluster.members[3]
    partition, share = other.sim.broker.topics.partition("t", 0), other.sim.broker.share
    for asked in (share, cluster.members[LEADER].sim.broker.share):
        here = partition if asked is share else cluster.members[LEADER].sim.broker.topics.partition("t", 0)
        end = asked.end_of(here)
        cluster.settle()
        assert end.result() == 2
    other.peers.down.add(LEADER)
    end = share.end_of(partition)
    cluster.settle()
    assert isinstance(end.error, PeerUnavailable)


def test_each_state_is_reached_from_every_broker(cluster: SimulatedCluster) -> None:
    key, answers, states = key_of(cluster), list[KqueueError | None](), list[Any]()
    persister = cluster.members[3].sim.broker.share.states
    persister.read(key, UNCHANGED, states.append)
    persister.read_summary(key, states.append)
    cluster.settle()
    assert states == [None, None]
    persister.initialize(key, 3, 5, answers.append)
    cluster.settle()
    update = ShareUpdate(6, [StateBatch(7, 8, RecordState.ACKNOWLEDGED, 2)], 2)
    persister.write(key, 3, 9, update, answers.append)
    persister.write(key, 2, 9, update, answers.append)
    persister.write(key, 3, 8, update, answers.append)
    persister.initialize(key, 2, 0, answers.append)
    cluster.settle()
    fenced = [FencedStateEpoch, FencedLeaderEpoch, FencedStateEpoch]
    assert answers[0] is None
    assert sorted(type(error).__name__ for error in answers[1:]) == sorted(
        ["NoneType", *(each.__name__ for each in fenced)]
    )
    states.clear()
    persister.read(key, 9, states.append)
    persister.read(key, 8, states.append)
    persister.read_summary(key, states.append)
    cluster.settle()
    persisted, refused, summary = states[0], states[1], states[-1]
    if isinstance(persisted, KqueueError):
        persisted, refused = refused, persisted
    assert (persisted.start_offset, persisted.state_epoch, list(persisted.batches)) == (6, 3, update.batches)
    assert any(isinstance(each, FencedLeaderEpoch) for each in states)
    [short] = [each for each in states if isinstance(each, ShareState) and not each.batches]
    assert (short.start_offset, short.delivery_complete_count, short.leader_epoch) == (6, 2, 9)
    del summary
    answers.clear()
    persister.delete(key, answers.append)
    persister.delete(key._replace(group="other"), answers.append)
    cluster.settle()
    assert answers == [None, None]
    assert state(cluster) is None


def test_many_questions_share_requests(cluster: SimulatedCluster) -> None:
    member = cluster.members[3]
    answers: list[KqueueError | None] = []
    for number in range(40):
        for partition in (0, 0):
            key = key_of(cluster, f"g{number % 2}")._replace(partition=partition)
            member.sim.broker.share.states.delete(key, answers.append)
    cluster.settle()
    assert answers == [None] * 80
    assert len(member.peers.requests) == 80, "each share partition is in a request once"
    member.peers.requests.clear()
    for number in range(40):
        member.sim.broker.share.states.delete(key_of(cluster)._replace(partition=number), answers.append)
    cluster.settle()
    assert len(member.peers.requests) == 2


def test_without_a_coordinator_the_topic_is_created_and_the_caller_tries_again() -> None:
    few = SimulatedCluster(2, SETTINGS)
    few.create("t", LEADER)
    [error] = initialize(few)
    assert type(error) is CoordinatorNotAvailable
    assert "replication factor 3" in str(error)
    cluster = SimulatedCluster(3, SETTINGS)
    cluster.create("t", LEADER)
    [error] = initialize(cluster)
    assert type(error) is CoordinatorNotAvailable
    assert cluster.members[LEADER].sim.broker.topics.find(SHARE_TOPIC) is not None


def test_a_broker_that_answers_nonsense_is_an_error_for_a_retry(cluster: SimulatedCluster) -> None:
    leader, states = cluster.members[LEADER], list[Any]()
    initialize(cluster)
    for damage in ("state", "missing", "gone"):
        leader.sim.broker.share.states.read(key_of(cluster), UNCHANGED, states.append)
        [sent] = leader.peers._sent
        assert sent.done is not None
        sent.pending = cluster.members[COORDINATOR].start(sent.request, 0)
        cluster.members[COORDINATOR].sim.settle()
        response = sent.pending.response
        if damage == "state":
            response.results[0].partitions[0].state_batches = [read_share_group_state.StateBatch(delivery_state=77)]
        elif damage == "missing":
            response.results.clear()
        else:
            response = PeerUnavailable("gone")
        leader.peers._sent.clear()
        sent.done(response)
    assert [type(each) for each in states] == [CoordinatorNotAvailable] * 3


def test_a_group_without_a_heartbeat_asks_the_coordinator_once_a_fetch(
    cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not without end: each answer wakes the fetch, which asked again at once."""
    asked = []
    read = ShareCoordinator.read_for_leader
    monkeypatch.setattr(ShareCoordinator, "read_for_leader", lambda *args: asked.append(args) or read(*args))
    consumer = Consumer(cluster)
    for _ in range(2):
        waiting = consumer.start()
        for _ in range(99):
            cluster.advance(100)
        assert waiting.response is None
        cluster.advance(100)
        [topic] = waiting.response.responses  # type: ignore[attr-defined]
        assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert 1 <= len(asked) <= 4
    begin(cluster)
    append(cluster.members[LEADER], b"0")
    cluster.advance(100)
    assert consumer.acquired() == [(0, 0, 1)]
