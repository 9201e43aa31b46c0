"""Changes of one partition's in-sync set and leader: rules 3 to 6 and 29.

A change is made in two steps: functions return a partition with the new sets and leader, and
`raise_epochs` raises its epochs once, whatever number of changes came together. Source: KIP-841,
KIP-966, Kafka's PartitionChangeBuilder.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from kqueue.replication.registrations import NO_LEADER, PartitionRegistration, TopicRegistration

MIN_ISR = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"


def topic_min_isr(configs: Mapping[str, str], default: int) -> int:
    """Return `min.insync.replicas` of a topic. `default`: the brokers'."""
    return int(configs.get(MIN_ISR, default))


def topic_allows_unclean(configs: Mapping[str, str], default: bool) -> bool:
    """Return `unclean.leader.election.enable` of a topic. `default`: the brokers'."""
    value = configs.get(UNCLEAN_ELECTION)
    return default if value is None else value.strip().lower() == "true"


def effective_min_isr(partition: PartitionRegistration, min_isr: int) -> int:
    """Return the smallest in-sync set that commits: never more than there are replicas."""
    return min(min_isr, len(partition.replicas))


def with_isr(
    partition: PartitionRegistration, isr: Container[int], min_isr: int, lost: Container[int] = ()
) -> PartitionRegistration:
    """Replace the in-sync set; members that leave one below the minimum stay eligible.

    Rules 3, 6, 29: at `min_isr` or above nobody else is eligible, as more will be committed without
    them.

    Args: lost: brokers whose logs may lack records that they confirmed (rule 1): not eligible.
    """
    members = tuple(node for node in partition.replicas if node in isr)
    if len(members) >= effective_min_isr(partition, min_isr):
        return partition._replace(isr=members, elr=())
    # All of these had everything committed. Below the minimum nothing more is committed, so those
    # that leave now still do (KIP-966).
    held_all = {*partition.isr, *partition.elr}
    elr = tuple(node for node in partition.replicas if node in held_all and node not in members and node not in lost)
    return partition._replace(isr=members, elr=elr)


def with_last_known(
    before: PartitionRegistration, after: PartitionRegistration, lost: Container[int], outdated: Container[int]
) -> PartitionRegistration:
    """Note in `after` who may lead once no broker is in sync or eligible: rule 5.

    That is the last leader. If it is outdated, a broker that was killed before it had flushed goes
    before it: that one has all records, unless its machine lost power.

    Args: lost, outdated: brokers that left both sets for this reason; `lost` has the outdated too.
    """
    last = before.last_known_leader if before.leader == NO_LEADER else before.leader
    held = {*before.isr, *before.elr} - {*after.isr, *after.elr, last}
    killed = tuple(node for node in before.replicas if node in held and node in lost and node not in outdated)
    known = (*killed, *(node for node in before.last_known_elr if node not in outdated))
    behind = tuple(node for node in before.last_known_elr if node in outdated)
    if last in outdated:
        return after._replace(last_known_leader=NO_LEADER, last_known_elr=(*known, *behind, last))
    return after._replace(last_known_elr=(*known, *behind))


def elect(partition: PartitionRegistration, active: Container[int], min_isr: int) -> PartitionRegistration:
    """Elect the first active member in the order of replicas: rule 4.

    A member of the in-sync set; else an eligible one, which becomes the in-sync set. Where both are
    empty, the one of `last_known`, as it lost the least (KIP-966); `is_unclean` tells. Else the
    partition has no leader.
    """
    for members in (partition.isr, partition.elr):
        # In the order of replicas, so that the preferred leader comes back where it may.
        leader = next((node for node in partition.replicas if node in members and node in active), NO_LEADER)
        if leader != NO_LEADER:
            # An eligible one leads alone: the others may lack what it has, and join by fetching.
            chosen = partition if leader in partition.isr else with_isr(partition, (leader,), min_isr)
            return chosen._replace(leader=leader)
    last = last_known(partition)
    if not partition.isr and not partition.elr and last in partition.replicas and last in active:
        return elect_unclean(partition, (last,))
    return partition._replace(leader=NO_LEADER)


def last_known(partition: PartitionRegistration) -> int:
    """Return the broker that leads, by an unclean election, where none is in sync or eligible."""
    if partition.last_known_leader != NO_LEADER or not partition.last_known_elr:
        return partition.last_known_leader
    return partition.last_known_elr[0]


def leave(partition: PartitionRegistration, node: int, active: Container[int], min_isr: int) -> PartitionRegistration:
    """Take a broker whose log has failed out of both sets; if it leads, elect another one.

    Args: active: the other brokers that may lead.
    Returns: `partition` itself where none of them is in sync or eligible: the last one stays.
    """
    members = tuple(other for other in partition.isr if other != node)
    # The last one keeps its place: to leave would give up its records for an unclean election.
    if not any(other in active for other in (*members, *partition.elr)):
        return partition
    after = with_isr(partition, members, min_isr, (node,))
    return elect(after, active, min_isr) if after.leader == node or not members else after


def elect_unclean(partition: PartitionRegistration, active: Container[int]) -> PartitionRegistration:
    """Elect the first active replica, whatever it lacks: rule 5. No active one: no leader.

    It becomes the in-sync set. Nobody else stays eligible: their logs may contradict the new
    leader's.
    """
    leader = next((node for node in partition.replicas if node in active), NO_LEADER)
    if leader == NO_LEADER:
        return partition._replace(leader=NO_LEADER)
    return partition._replace(leader=leader, isr=(leader,), elr=(), recovering=True)


def is_unclean(before: PartitionRegistration, after: PartitionRegistration) -> bool:
    """Whether `after` has a leader that was neither in sync nor eligible."""
    return after.leader not in (NO_LEADER, before.leader) and after.leader not in {*before.isr, *before.elr}


def elect_preferred(partition: PartitionRegistration, active: Container[int]) -> PartitionRegistration:
    """Make the first replica the leader if it is in sync and active; else return `partition`."""
    preferred = partition.replicas[0]
    if preferred in partition.isr and preferred in active:
        return partition._replace(leader=preferred)
    return partition


def raise_epochs(before: PartitionRegistration, after: PartitionRegistration) -> PartitionRegistration:
    """Return `after` with its epochs; `before` itself if nothing changed.

    PE rises with each change; LE where the leader changes, and where a replica leaves. The last
    leader is kept while there is none.
    """
    if after.leader != NO_LEADER:
        after = after._replace(last_known_leader=NO_LEADER, last_known_elr=())
    elif before.leader != NO_LEADER and before.leader not in after.last_known_elr:
        after = after._replace(last_known_leader=before.leader)
    leader_epoch, partition_epoch = before.leader_epoch, before.partition_epoch
    if after._replace(leader_epoch=leader_epoch, partition_epoch=partition_epoch) == before:
        return before
    # Where a replica leaves, its fetches in the old epoch must not count any more if it comes back
    # (rule 9); a leader forgets its followers only with a new epoch.
    if after.leader != before.leader or not set(before.replicas) <= set(after.replicas):
        leader_epoch += 1
    return after._replace(leader_epoch=leader_epoch, partition_epoch=partition_epoch + 1)


def with_configs(topic: TopicRegistration, configs: Mapping[str, str], default_min_isr: int) -> TopicRegistration:
    """Return the topic with other settings of its own, and what follows for its partitions.

    Where the minimum falls to the size of an in-sync set, that set commits alone from now on:
    nobody else stays eligible (rule 6).
    """
    min_isr = topic_min_isr(configs, default_min_isr)
    partitions = tuple(
        raise_epochs(partition, with_isr(partition, partition.isr, min_isr)) if partition.elr else partition
        for partition in topic.partitions
    )
    return topic._replace(configs=configs, partitions=partitions)
