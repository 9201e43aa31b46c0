"""One replicated partition without disks, sockets and time: everything that can happen to it.

Three brokers, two of which must be in sync, run the shipped classes (`decide`, `LeaderReplica`,
`FollowerReplica`, `LeaderEpochCache`) over logs that are lists, a store that is a list of images,
and messages that are delivered in any order. `replication_model` decides what happens.

Records are numbers: leader epoch times `EPOCH`, plus a number that is never used again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from kqueue.base.errors import (
    FencedLeaderEpoch,
    InvalidReplicaAssignment,
    NotLeader,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from kqueue.log.formats.leader_epochs import LeaderEpochCache
from kqueue.replication.controller import DecisionOptions, balance_leaders, decide
from kqueue.replication.follower_replica import FollowerFetch, FollowerReplica
from kqueue.replication.leader_replica import IsrProposal, LeaderReplica, ReplicaFetch, accept_proposal
from kqueue.replication.reassignments import cancel_reassignment, start_reassignment
from kqueue.replication.registrations import (
    BrokerRegistration,
    ClusterImage,
    PartitionRegistration,
    TopicRegistration,
)

EPOCH = 1_000_000
BROKERS = 3
MIN_ISR = 2
LAG_MAX_MS = 40
TOPIC = "t"


class InvariantViolated(AssertionError):
    """A step led to a state that the rules exclude."""


class Node:
    """A broker and its replica. What is not lost in a crash: id, log, epochs, the checkpoint."""

    def __init__(self, id: int) -> None:
        self.id = id
        self.log: list[int] = []
        self.epochs = LeaderEpochCache()
        self.flushed = 0
        self.high_watermark = 0
        self.is_up = False
        self.is_paused = False
        self.stopped_clean = True
        self.broker_epoch = 0
        self.min_isr = MIN_ISR  # `min.insync.replicas` as it knows it
        self.view = 0  # index of the newest image that it applied
        self.leader: LeaderReplica | None = None
        self.follower: FollowerReplica | None = None

    @property
    def runs(self) -> bool:
        """Whether it does anything now."""
        return self.is_up and not self.is_paused

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return where an epoch ends, for rules 16 and 19."""
        return self.epochs.end_offset_for(epoch, len(self.log))

    def append(self, records: list[int]) -> None:
        for record in records:
            epoch = record // EPOCH
            if epoch != self.epochs.latest:
                self.epochs.assign(epoch, len(self.log))
            self.log.append(record)

    def truncate(self, end: int) -> None:
        del self.log[end:]
        self.epochs.truncate_from_end(end)
        self.flushed = min(self.flushed, end)
        self.high_watermark = min(self.high_watermark, end)


class Request(NamedTuple):
    """A fetch on its way to `fetch.leader`."""

    node: Node
    broker_epoch: int
    fetch: FollowerFetch


class Response(NamedTuple):
    """The answer to `request`: where the logs part, or records."""

    request: Request
    diverging: tuple[int, int] | None
    records: list[int]
    high_watermark: int


class Commit(NamedTuple):
    """A proposal on its way to the store."""

    node: Node
    broker_epoch: int
    leader: LeaderReplica
    proposal: IsrProposal


class ReplicationWorld:
    """One run. `flushes`: group mode, in which only flushed records count; else kafka mode."""

    leader_class = LeaderReplica
    follower_class = FollowerReplica

    def __init__(self, seed: int, trace: Callable[[str], None] | None = None) -> None:
        self._rng = random.Random(seed)
        self._random = self._rng.random
        self._trace = trace
        self.flushes = seed % 2 == 0
        self.nodes = [Node(id) for id in range(BROKERS)]
        ids = tuple(range(BROKERS))
        self.image = ClusterImage({}, {TOPIC: TopicRegistration(bytes(16), {}, (PartitionRegistration(ids, ids, 0),))})
        self.history = [self.image]
        self.sessions: dict[int, int] = {}
        self.committed: list[int] = []  # what a high watermark has passed, anywhere
        self.leaders: dict[int, Node] = {}  # by leader epoch
        self.requests: list[Request] = []
        self.responses: list[Response] = []
        self.commits: list[Commit] = []
        self.decided: list[ClusterImageChange] = []
        self.now_ms = 0.0
        self.records = 0
        self.unclean_crashes = 0
        self.ended = False
        for node in self.nodes:
            self.start(node)
        while self.control_once():
            pass
        for node in self.nodes:
            self.refresh(node)

    # --- the store

    @property
    def partition(self) -> PartitionRegistration:
        return self.image.topics[TOPIC].partitions[0]

    def put_broker(self, broker: BrokerRegistration) -> None:
        """Commit a broker's record."""
        self._put(self.image._replace(brokers={**self.image.brokers, broker.id: broker}))

    def put_partition(self, partition: PartitionRegistration) -> None:
        """Commit the partition's registration. Raises InvariantViolated: epochs do not rise."""
        before = self.partition
        if partition.partition_epoch != before.partition_epoch + 1 or partition.leader_epoch < before.leader_epoch:
            raise InvariantViolated(f"the epochs of a partition do not rise: {before} -> {partition}")
        topic = self.image.topics[TOPIC]._replace(partitions=(partition,))
        self._put(self.image._replace(topics={TOPIC: topic}))

    def _put(self, image: ClusterImage) -> None:
        self.image = image
        self.history.append(image)

    def accept(self, proposal: IsrProposal) -> PartitionRegistration | None:
        """Return what the store makes of a proposal; None: it refuses (rule 27)."""
        return accept_proposal(self.partition, proposal, self.image.brokers, self.nodes[proposal.leader].min_isr)

    # --- brokers come and go

    def register(self, node: Node, clean: bool) -> None:
        node.broker_epoch = max((broker.epoch for broker in self.image.brokers.values()), default=0) + 1
        before = self.image.brokers.get(node.id)
        broker = BrokerRegistration(node.id, node.broker_epoch, "", {}, clean=clean)
        self.put_broker(self.succeed(broker, before))
        self.sessions[node.id] = node.broker_epoch
        node.view = len(self.history) - 1
        self.apply(node)

    def succeed(self, broker: BrokerRegistration, before: BrokerRegistration | None) -> BrokerRegistration:
        """Return what a broker registers after `before`: unclean until it was unfenced (rule 1)."""
        return broker if before is None or before.clean else broker._replace(clean=False)

    def start(self, node: Node) -> None:
        """Start a broker. In kafka mode it is unclean unless it was stopped."""
        node.is_up, node.is_paused = True, False
        clean = self.flushes or node.stopped_clean
        node.stopped_clean = False
        self.note("start", node, clean)
        self.register(node, clean)

    def crash(self, node: Node, power_cut: bool) -> None:
        """End a broker. A power cut loses some of the records that are not flushed."""
        node.is_up = False
        node.leader = node.follower = None
        if power_cut and node.flushed < len(node.log):
            node.truncate(self._rng.randint(node.flushed, len(node.log)))
        node.flushed = len(node.log)
        self.unclean_crashes += not self.flushes
        if self._random() < 0.5:  # an old checkpoint
            node.high_watermark = self._rng.randint(0, node.high_watermark)
        self.note("crash", node, power_cut)

    def stop(self, node: Node) -> None:
        """End a broker cleanly."""
        node.is_up = False
        node.leader = node.follower = None
        node.flushed = len(node.log)
        node.stopped_clean = True
        self.sessions.pop(node.id, None)
        self.note("stop", node)

    # --- roles

    def refresh(self, node: Node) -> None:
        """Let a broker see a later image, with or without gaps."""
        latest = len(self.history) - 1
        if node.view < latest:
            node.view = latest if self._random() < 0.7 else self._rng.randint(node.view + 1, latest)
            self.apply(node)

    def apply(self, node: Node) -> None:
        """Take the role that the image of a broker gives it."""
        image = self.history[node.view]
        registration = image.topics[TOPIC].partitions[0]
        if registration.leader == node.id and self.may_lead(node, image.brokers[node.id]):
            if node.leader is not None and node.leader.leader_epoch == registration.leader_epoch:
                if node.leader.applied(registration, self.now_ms):
                    self.note("applied", node, registration)
                    self.advance(node)
            else:
                self.become_leader(node, registration)
        elif node.id not in registration.replicas:
            node.leader = node.follower = None
            if node.log:
                self.note("deleted", node, registration)
                node.truncate(0)
        else:
            node.leader = None
            if node.follower is None:
                self.become_follower(node, registration)
            else:
                node.follower.applied(registration)

    def may_lead(self, node: Node, broker: BrokerRegistration) -> bool:
        """Whether a broker takes a leadership: not while it is fenced."""
        return broker.epoch == node.broker_epoch and not broker.fenced

    def become_leader(self, node: Node, registration: PartitionRegistration) -> None:
        """Begin to lead (rule 9)."""
        end = len(node.log)
        node.epochs.assign(registration.leader_epoch, end)
        node.follower = None
        node.leader = self.leader_class(node.id, registration, end, node.high_watermark, self.now_ms)
        if self.leaders.setdefault(registration.leader_epoch, node) is not node:
            raise InvariantViolated(f"two leaders in epoch {registration.leader_epoch}")
        self.note("leader", node, registration)
        self.advance(node)

    def become_follower(self, node: Node, registration: PartitionRegistration) -> None:
        """Begin to follow (rule 10)."""
        node.follower = self.follower_class(registration)
        self.note("follower", node, registration)

    def own_end(self, node: Node) -> int:
        """Return what counts of a leader's own log (rule 21)."""
        return node.flushed if self.flushes else len(node.log)

    def advance(self, node: Node) -> None:
        if node.leader is not None and node.leader.advance(self.own_end(node), node.min_isr):
            node.high_watermark = node.leader.high_watermark
            self.committed.extend(node.log[len(self.committed) : node.high_watermark])
            self.note("high watermark", node, node.high_watermark)

    # --- a leader's work

    def produce(self, node: Node) -> None:
        """Append a record, with acks=all or acks=1."""
        if node.leader is None:
            return
        if self._random() < 0.7 and node.leader.is_under_min_isr(node.min_isr):  # acks=all
            return
        self.records += 1
        node.append([node.leader.leader_epoch * EPOCH + self.records])
        self.note("append", node, node.log[-1])
        self.advance(node)

    def flush(self, node: Node) -> None:
        node.flushed = len(node.log)
        self.advance(node)

    def propose(self, node: Node) -> None:
        """Send a proposal to the store, if one is due."""
        if node.leader is None:
            return
        active = {id: broker.epoch for id, broker in self.history[node.view].brokers.items() if broker.is_active}
        proposal = node.leader.proposal(len(node.log), self.now_ms, LAG_MAX_MS, node.min_isr, active)
        if proposal is not None:
            self.note("propose", node, proposal)
            self.commits.append(Commit(node, node.broker_epoch, node.leader, proposal))

    def commit(self, commit: Commit) -> None:
        node, leader = commit.node, commit.leader
        is_waiting = node.runs and node.leader is leader
        if node.leader is leader and (node.is_paused or self._random() < 0.15):
            leader.unknown(commit.proposal)  # the connection breaks; the commit may still arrive
            self.note("unknown", node)
            if self._random() < 0.5:
                self.commits.append(commit)
                return
            is_waiting = False
        after = self.accept(commit.proposal) if self.sessions.get(node.id) == commit.broker_epoch else None
        if after is not None:
            self.put_partition(after)
            self.note("committed", node, after)
        if is_waiting and after is not None:
            node.view = len(self.history) - 1
            self.apply(node)
        elif is_waiting:
            leader.rejected(commit.proposal)
            self.note("rejected", node)
            self.advance(node)

    # --- fetches

    def fetch(self, node: Node) -> Request | None:
        """Return the fetch of a follower (rule 14); None: it has no leader."""
        follower = node.follower
        if follower is None or follower.leader in (-1, node.id):
            return None
        self.before_fetch(node)
        return Request(node, node.broker_epoch, follower.next_fetch(len(node.log), node.epochs.latest))

    def before_fetch(self, node: Node) -> None:
        """Flush, in group mode (rule 21)."""
        if self.flushes:
            node.flushed = len(node.log)

    def answer(self, request: Request) -> Response | None:
        """Return the answer of the leader; None: it refuses, or does not run."""
        node, fetch = self.nodes[request.fetch.leader], request.fetch
        if not node.runs or node.leader is None:
            return None
        arguments = request.node.id, request.broker_epoch, fetch.leader_epoch, fetch.offset, fetch.last_epoch
        try:
            diverging = node.leader.fetched(ReplicaFetch(*arguments), node.end_of_epoch, len(node.log), self.now_ms)
        except (NotLeader, FencedLeaderEpoch, UnknownLeaderEpoch):
            return None
        except OffsetOutOfRange as error:
            raise InvariantViolated(f"a follower can't be placed: {error}") from error
        self.note("fetched", node, arguments, diverging)
        if diverging is not None:
            return Response(request, diverging, [], 0)
        self.advance(node)
        records = node.log[fetch.offset : fetch.offset + self._rng.randint(1, 4)]
        return Response(request, None, records, node.high_watermark)

    def receive(self, response: Response) -> None:
        node, fetch = response.request.node, response.request.fetch
        if not node.runs or node.broker_epoch != response.request.broker_epoch or node.follower is None:
            return
        if not node.follower.accepts(fetch, len(node.log), node.epochs.latest):
            return
        if response.diverging is not None:
            self.cut(node, response.diverging)
            return
        node.append(response.records)
        node.high_watermark = node.follower.high_watermark(response.high_watermark, len(node.log), node.high_watermark)
        self.note("received", node, response.records, node.high_watermark)

    def cut(self, node: Node, diverging: tuple[int, int]) -> None:
        """Truncate a log where it differs (rule 19)."""
        assert node.follower is not None
        at = node.follower.truncation(diverging, node.end_of_epoch, len(node.log), node.high_watermark)
        if at.is_loss:
            raise InvariantViolated(f"broker {node.id} truncates committed records, from {at.offset} on")
        node.truncate(at.offset)
        self.note("truncated", node, diverging, at.offset)

    # --- the controller

    def control_once(self) -> bool:
        """Commit one group of the last decision, or make a new one. Returns: there was one."""
        if self.decided:
            self.decided.pop(0)(self)
            return True
        controller = self.nodes[int(self._random() * BROKERS)]
        decision = decide(self.image, self.sessions, DecisionOptions(controller.min_isr))
        if decision.unclean_elections and self.unclean_crashes < MIN_ISR:
            raise InvariantViolated(f"unclean election after {self.unclean_crashes} unclean crashes: {decision.lines}")
        brokers, topic = self.image.brokers, self.image.topics[TOPIC]
        after = decision.topics.get(TOPIC)
        topics = [] if after is None else [PartitionChange(topic, after, bool(decision.unclean_elections))]
        self.decided = self.order(
            [BrokerChange(brokers[broker.id], broker) for broker in decision.fenced],
            topics,
            [BrokerChange(brokers[broker.id], broker) for broker in decision.unfenced],
        )
        return bool(self.decided)

    def order(self, fenced: list[Any], topics: list[Any], unfenced: list[Any]) -> list[Any]:
        """Return the changes of a decision in the order of their commits."""
        return [*fenced, *topics, *unfenced]

    def balance(self) -> None:
        """Decide to elect the preferred leader."""
        decision = balance_leaders(self.image, 0)
        if decision and not self.decided:
            self.decided = [PartitionChange(self.image.topics[TOPIC], decision.topics[TOPIC], False)]

    def reassign(self) -> None:
        """Begin to move the partition to two or three brokers, or cancel that."""
        before = self.partition
        if (before.adding or before.removing) and self._random() < 0.4:
            active = {broker.id for broker in self.image.brokers.values() if broker.is_active}
            try:
                after = cancel_reassignment(before, active, MIN_ISR)
            except InvalidReplicaAssignment:
                return
        else:
            target = self._rng.sample(range(BROKERS), self._rng.randint(MIN_ISR, BROKERS))
            after = start_reassignment(before, target, self.image.brokers)
        if after is not before:
            self.put_partition(after)
            self.note("reassigned", self.nodes[0], after)

    def note(self, what: str, node: Node, *details: object) -> None:
        """Pass a line to the trace, if there is one."""
        if self._trace is not None:
            self._trace(f"{what} {node.id}: " + ", ".join(map(str, details)))


class BrokerChange(NamedTuple):
    """A broker's record to commit, guarded by the one that the decision has read."""

    before: BrokerRegistration
    after: BrokerRegistration

    def __call__(self, world: ReplicationWorld) -> None:
        if world.image.brokers[self.before.id] is self.before:
            world.put_broker(self.after)
            world.note("fenced" if self.after.fenced else "unfenced", world.nodes[self.after.id])
        else:
            world.decided = []


class PartitionChange(NamedTuple):
    """The topic's record to commit, guarded likewise."""

    before: TopicRegistration
    after: TopicRegistration
    is_unclean: bool

    def __call__(self, world: ReplicationWorld) -> None:
        if world.image.topics[TOPIC] is not self.before:
            world.decided = []
            return
        world.put_partition(self.after.partitions[0])
        world.note("decided", world.nodes[0], world.partition)
        world.ended = self.is_unclean


ClusterImageChange = BrokerChange | PartitionChange
