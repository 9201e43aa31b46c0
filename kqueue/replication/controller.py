"""The changes of the controller: a pure function of the metadata and the live sessions.

`decide` looks at the present state only, never at what happened: called again after its result was
committed it decides nothing, and called after a part of it was committed it decides the rest. So a
new controller goes on where another one stopped. Source: Kafka's ReplicationControlManager and
ClusterControlManager; KIP-841, KIP-966.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from kqueue.replication.elections import (
    elect,
    elect_preferred,
    elect_unclean,
    is_unclean,
    raise_epochs,
    topic_allows_unclean,
    topic_min_isr,
    with_isr,
    with_last_known,
)
from kqueue.replication.reassignments import complete_reassignment, is_complete
from kqueue.replication.registrations import (
    NO_LEADER,
    BrokerRegistration,
    ClusterImage,
    PartitionRegistration,
    TopicRegistration,
)


class DecisionOptions(NamedTuple):
    """The brokers' defaults of topic settings, and the bound of log lines of one decision."""

    min_isr: int = 1
    unclean_elections: bool = False
    lines_max: int = 100


class Decision(NamedTuple):
    """Registrations to commit, in this order, each group after the one before is committed.

    A broker that is fenced in the store can't be added to an in-sync set any more; one that is
    unfenced has left all of them. If a commit fails, the rest is void: read again, decide again.

    Attributes:
        fenced: brokers to fence (rule 3).
        topics: by name; their partitions carry raised epochs.
        unfenced: brokers to unfence (rule 2).
        lines: what changes and why, for the log.
        unclean_elections: partitions (topic, index) whose new leader may lack confirmed records.
    """

    fenced: tuple[BrokerRegistration, ...] = ()
    topics: Mapping[str, TopicRegistration] = {}
    unfenced: tuple[BrokerRegistration, ...] = ()
    lines: tuple[str, ...] = ()
    unclean_elections: tuple[tuple[str, int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.fenced or self.topics or self.unfenced)


class _Brokers(NamedTuple):
    """Node ids by what they may do. `active`: lead. `members`: belong to in-sync sets."""

    active: frozenset[int]
    members: frozenset[int]
    lost: frozenset[int]  # may lack records they confirmed: rule 1
    outdated: frozenset[int]  # those of `lost` that do lack records


def decide(
    image: ClusterImage,
    sessions: Mapping[int, int],
    options: DecisionOptions = DecisionOptions(),  # noqa: B008  immutable
    topics: Collection[str] | None = None,
) -> Decision:
    """Return what the controller has to commit now; an empty, false decision: nothing.

    Args:
        sessions: broker epoch by node id, of the live ones.
        topics: those that changed since the last decision, if no broker and no session did; None:
            look at all. The cost is one pass over their partitions.
    """
    fenced, unfenced, brokers = _broker_changes(image, sessions)
    log = _Log(image, options.lines_max)
    for broker in fenced:
        log.add(f"broker {broker.id} (epoch {broker.epoch}) is fenced: its session has ended")
    changed = {}
    # A broker that comes or goes may concern any partition.
    if topics is None or fenced or unfenced:
        topics = image.topics
    for name in topics:
        topic = image.topics.get(name)
        after = None if topic is None else _settle_topic(name, topic, brokers, options, log)
        if after is not None:
            changed[name] = after
    for broker in unfenced:
        log.add(f"broker {broker.id} (epoch {broker.epoch}) is unfenced")
    return Decision(fenced, changed, unfenced, log.lines(), tuple(log.unclean))


def balance_leaders(
    image: ClusterImage,
    percentage: int,
    options: DecisionOptions = DecisionOptions(),  # noqa: B008
) -> Decision:
    """Return elections of preferred leaders, of brokers that lead too few of their partitions.

    Args: percentage: `leader.imbalance.per.broker.percentage`; a broker is passed over as long as
        at most so many percent of the partitions that prefer it are led by others.
    """
    preferring: dict[int, int] = {}
    elsewhere: dict[int, int] = {}
    for topic in image.topics.values():
        for partition in topic.partitions:
            preferred = partition.replicas[0]
            preferring[preferred] = preferring.get(preferred, 0) + 1
            if partition.leader != preferred:
                elsewhere[preferred] = elsewhere.get(preferred, 0) + 1
    due = {node for node, count in elsewhere.items() if count * 100 > percentage * preferring[node]}
    active = frozenset(node for node, broker in image.brokers.items() if broker.is_active) & due
    log = _Log(image, options.lines_max)
    changed = {}
    if active:
        for name, topic in image.topics.items():
            partitions = tuple(
                raise_epochs(partition, elect_preferred(partition, active))
                if partition.leader != partition.replicas[0] and partition.replicas[0] in active
                else partition
                for partition in topic.partitions
            )
            if log.compare(name, topic.partitions, partitions):
                changed[name] = topic._replace(partitions=partitions)
    return Decision(topics=changed, lines=log.lines())


def _broker_changes(
    image: ClusterImage, sessions: Mapping[int, int]
) -> tuple[tuple[BrokerRegistration, ...], tuple[BrokerRegistration, ...], _Brokers]:
    fenced, unfenced = [], []
    active, members, lost, outdated = set(), set(), set(), set()
    for node, broker in image.brokers.items():
        is_live = sessions.get(node) == broker.epoch
        if broker.fenced:
            if not broker.clean:
                lost.add(node)
            if broker.outdated:
                outdated.add(node)
            if is_live and not broker.shutting_down:
                # Clean from then on: the topics of this decision are committed before, and take it
                # out of the sets that it may lack records of (rules 1 and 2).
                unfenced.append(broker._replace(fenced=False, clean=True, outdated=False))
        elif not is_live:
            fenced.append(broker._replace(fenced=True))
        else:
            members.add(node)
            if not broker.shutting_down:
                # Else it shuts down: it stays a member of its sets until others have taken over
                # (`_settle`), and is not elected any more.
                active.add(node)
    brokers = _Brokers(frozenset(active), frozenset(members), frozenset(lost), frozenset(outdated))
    return tuple(fenced), tuple(unfenced), brokers


def _settle_topic(
    name: str, topic: TopicRegistration, brokers: _Brokers, options: DecisionOptions, log: _Log
) -> TopicRegistration | None:
    """Return the topic with what its partitions need; None: nothing."""
    active = brokers.active
    settled = None
    min_isr = unclean = None
    for index, partition in enumerate(topic.partitions):
        is_led = partition.leader in active and active.issuperset(partition.isr)
        is_changing = partition.adding or partition.removing or partition.elr
        # Before the settings are looked up: a cluster of a hundred thousand partitions is gone
        # through at each failover.
        if is_led and not is_changing:
            continue  # nearly all, nearly always
        if min_isr is None:
            min_isr = topic_min_isr(topic.configs, options.min_isr)
            unclean = topic_allows_unclean(topic.configs, options.unclean_elections)
        after = raise_epochs(partition, _settle(partition, brokers, min_isr, bool(unclean)))
        if after is not partition:
            settled = settled or list(topic.partitions)
            settled[index] = after
    if settled is None:
        return None
    partitions = tuple(settled)
    log.compare(name, topic.partitions, partitions)
    return topic._replace(partitions=partitions)


def _settle(partition: PartitionRegistration, brokers: _Brokers, min_isr: int, unclean: bool) -> PartitionRegistration:
    isr = [node for node in partition.isr if node in brokers.members]
    if any(node in brokers.active for node in isr):  # controlled shutdown: where others remain
        isr = [node for node in isr if node in brokers.active]
    after = partition
    if len(isr) < len(partition.isr) or partition.elr:  # whose minimum may be lower now
        after = with_isr(partition, isr, min_isr, brokers.lost)
    after = with_last_known(partition, after, brokers.lost, brokers.outdated)
    if after.leader not in after.isr or (
        after.leader not in brokers.active and not brokers.active.isdisjoint(after.isr)
    ):
        after = elect(after, brokers.active, min_isr)
        # Only where no clean election is possible, and the topic allows it: records are lost.
        if after.leader == NO_LEADER and unclean:
            after = elect_unclean(after, brokers.active)
    # Last: whether the target can go on alone depends on the set and leader of this decision.
    if after.leader != NO_LEADER and is_complete(after, min_isr):
        after = complete_reassignment(after, brokers.active, min_isr)
    return after


class _Log:
    """Lines of one decision, one per changed partition, and at most `limit` of these."""

    def __init__(self, image: ClusterImage, limit: int) -> None:
        self._brokers = image.brokers
        self._limit = limit
        self._lines: list[str] = []
        self._more = 0
        self.unclean: list[tuple[str, int]] = []

    def add(self, line: str) -> None:
        if len(self._lines) < self._limit:
            self._lines.append(line)
        else:
            self._more += 1

    def compare(
        self, topic: str, before: Iterable[PartitionRegistration], after: Iterable[PartitionRegistration]
    ) -> bool:
        """Add a line for each partition that differs. Return whether one does."""
        differs = False
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            if old is not new:
                differs = True
                if is_unclean(old, new):
                    self.unclean.append((topic, index))
                self.add(f"{topic}-{index}: {_describe(old, new)}")
        return differs

    def lines(self) -> tuple[str, ...]:
        return (*self._lines, f"and {self._more} more changes") if self._more else tuple(self._lines)


def _describe(old: PartitionRegistration, new: PartitionRegistration) -> str:
    parts = []
    if old.replicas != new.replicas:
        parts.append(f"the reassignment is complete, replicas {_nodes(old.replicas)} -> {_nodes(new.replicas)}")
    if old.leader != new.leader:
        parts.append(f"leader {_leader(old)} -> {_leader(new)} (epoch {new.leader_epoch})")
    if old.isr != new.isr:
        parts.append(f"in sync {_nodes(old.isr)} -> {_nodes(new.isr)}")
    if old.elr != new.elr:
        parts.append(f"eligible {_nodes(old.elr)} -> {_nodes(new.elr)}")
    if is_unclean(old, new):
        held = (
            _nodes((*old.isr, *old.elr))
            if old.isr or old.elr
            else _nodes(node for node in old.replicas if node != new.leader)
        )
        parts.append(f"unclean election: records that only broker(s) {held} have are lost")
    return ", ".join(parts) or "changed"


def _leader(partition: PartitionRegistration) -> str:
    return "none" if partition.leader == NO_LEADER else str(partition.leader)


def _nodes(nodes: Iterable[int]) -> str:
    return "[" + ",".join(map(str, nodes)) + "]"
