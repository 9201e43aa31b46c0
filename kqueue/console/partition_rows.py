"""The partitions of one topic: where they are, how large, and what each replica lacks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from kqueue.admin.log_ends import log_ends
from kqueue.admin.partition_conditions import NO_LEADER
from kqueue.base.text import size_text
from kqueue.client import (
    EARLIEST,
    Client,
    ClusterDescription,
    ClusterMetadata,
    LogDir,
    PartitionMetadata,
    Reassignment,
    TopicMetadata,
    TopicPartition,
)
from kqueue.client.errors import ClientError
from kqueue.console.cluster_counts import FENCED, GONE, broker_state


class PartitionRow(NamedTuple):
    """A partition. `start`, `end`: offsets; None: not known. `size`: bytes at the leader.

    `lacking`: a sentence for each replica that is not in sync. `replicas`: with whether it is.
    """

    number: int
    leader: int | None
    epoch: int
    replicas: Sequence[tuple[int, bool]]
    start: int | None
    end: int | None
    size: int | None
    is_preferred: bool
    lacking: Sequence[str]

    @property
    def records(self) -> int | None:
        """The offsets that it spans."""
        return None if self.start is None or self.end is None else self.end - self.start


class ReplicaStates(NamedTuple):
    """What is known of the brokers that hold replicas.

    `sizes`: bytes of each replica by broker. `moving`: the partitions that are being moved.
    """

    listed: Collection[int]
    fenced: Collection[int]
    sizes: Mapping[int, Mapping[TopicPartition, int]]
    moving: Mapping[TopicPartition, Reassignment]


def replica_states(
    metadata: ClusterMetadata,
    description: ClusterDescription | None,
    dirs: Mapping[int, Sequence[LogDir]],
    moving: Mapping[TopicPartition, Reassignment],
) -> ReplicaStates:
    """Join what the cluster says of its brokers. `description`: None: they can't tell."""
    listed = {*metadata.brokers, *(description.brokers if description is not None else ())}
    fenced = (description.fenced if description is not None else frozenset()) - metadata.brokers.keys()
    sizes = {
        node_id: {partition: size for folder in folders for partition, size in folder.sizes.items()}
        for node_id, folders in dirs.items()
    }
    return ReplicaStates(listed, fenced, sizes, moving)


def partition_rows(
    client: Client, topic: TopicMetadata, indexes: Collection[int], states: ReplicaStates
) -> list[PartitionRow]:
    """Return rows of these partitions. Offsets of partitions whose leader fails are None."""
    shown = {index: topic.partitions[index] for index in indexes}
    ends = log_ends(client, [TopicMetadata(topic.name, topic.id, shown, topic.is_internal)]).ends
    starts = _starts(client, ends)
    rows = []
    for index, partition in shown.items():
        topic_partition = TopicPartition(topic.name, index)
        rows.append(
            PartitionRow(
                index,
                None if partition.leader == NO_LEADER else partition.leader,
                partition.leader_epoch,
                [(node_id, node_id in partition.in_sync) for node_id in partition.replicas],
                starts.get(topic_partition),
                ends.get(topic_partition),
                states.sizes.get(partition.leader, {}).get(topic_partition),
                partition.leader in (NO_LEADER, *partition.replicas[:1]),
                lacking_replicas(topic_partition, partition, states),
            )
        )
    return rows


def _starts(client: Client, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
    if not partitions:
        return {}
    try:
        starts = client.offsets(dict.fromkeys(partitions, EARLIEST))
    except ClientError as error:
        starts = dict(error.done)
    return {partition: start.offset for partition, start in starts.items()}


def lacking_replicas(topic_partition: TopicPartition, partition: PartitionMetadata, states: ReplicaStates) -> list[str]:
    """Return why each replica that is not in sync is not, as sentences."""
    sentences = []
    if partition.leader == NO_LEADER:
        able = "no replica that may lead runs"
        sentences.append(f"No leader: {able}; in sync before: {', '.join(map(str, partition.in_sync)) or 'none'}.")
    move = states.moving.get(topic_partition)
    for node_id in partition.replicas:
        if node_id not in partition.in_sync:
            is_added = move is not None and node_id in move.adding
            sentences.append(_lacking(node_id, topic_partition, partition, states, is_added))
    return sentences


def _lacking(
    node_id: int, topic_partition: TopicPartition, partition: PartitionMetadata, states: ReplicaStates, is_added: bool
) -> str:
    replica = f"Replica {node_id}"
    state = broker_state(node_id, states.listed, states.fenced)
    if state == GONE:
        return f"{replica}: broker {node_id} is down, or was removed."
    if state == FENCED:
        return f"{replica}: broker {node_id} is fenced; it has no session, or is starting."
    if node_id in partition.offline:
        return f"{replica}: its data folder is offline on broker {node_id}."
    held = states.sizes.get(node_id, {}).get(topic_partition)
    led = states.sizes.get(partition.leader, {}).get(topic_partition)
    what = "is being added" if is_added else "is behind its leader"
    if held is None or led is None:
        return f"{replica} {what}; broker {node_id} runs."
    if held >= led:
        return f"{replica} {what}; broker {node_id} runs, and has all bytes: it rejoins soon."
    missing = size_text(led - held)
    return f"{replica} {what}: it has {size_text(held)} of {size_text(led)}, {missing} are missing; broker runs."


def spread(partitions: Collection[PartitionMetadata]) -> str:
    """Return the numbers of replicas of partitions, as ``3`` or ``2–3``."""
    numbers = sorted({len(partition.replicas) for partition in partitions})
    return "–".join(str(number) for number in dict.fromkeys((numbers[0], numbers[-1]))) if numbers else "0"
