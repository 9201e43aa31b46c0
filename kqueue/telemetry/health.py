"""What keeps a broker from serving, or from being stopped without a risk for its cluster: the
reasons that `/readyz` and `kqueue health` name.
"""

from __future__ import annotations

from kqueue.base.text import counted
from kqueue.broker.broker import Broker


def reasons_not_ready(broker: Broker) -> list[str]:
    """Return a sentence for each thing that keeps the broker from serving all it has; none: it is
    ready. Thread: the owner thread.
    """
    reasons = [f"data folder {place} can't be used: {error}" for place, error in broker.logs.offline]
    reasons += [f"producers are refused: {refusal}" for refusal in broker.logs.refusals]
    member = broker.member
    if member is not None and member.store_error is not None:
        reasons.append(f"the metadata store does not answer: {member.store_error}")
    if not broker.ready.done:
        left = len(broker.logs.unrecovered())
        reasons.append(f"still to be recovered: {counted(left, 'log')}" if left else "groups are still being loaded")
    if member is not None and not member.is_unfenced:
        reasons.append("the cluster has not admitted this broker, or fenced it: it leads no partition")
    failed = sum(
        1
        for topic in broker.topics
        for partition in topic.partitions
        if partition.is_open and not partition.deleted and partition.log.health.failure is not None
    )
    if failed:
        reasons.append(f"since a failure of its disk {counted(failed, 'partition')} takes no records")
    return reasons


def reasons_not_in_sync(broker: Broker) -> list[str]:
    """Return a sentence if replicas of this broker lack records that their leaders have; none: all
    are in sync. Thread: the owner thread.
    """
    node = broker.identity.node_id
    behind = sum(
        1
        for topic in broker.topics
        for partition in topic.partitions
        if not partition.deleted and node in partition.replicas and node not in partition.isr
    )
    return [f"not in sync yet: {counted(behind, 'replica')} of this broker"] if behind else []
