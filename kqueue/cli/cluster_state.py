"""`kqueue cluster describe` and `kqueue cluster brokers`: the state of brokers and replicas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from kqueue.base.config_resources import ResourceType
from kqueue.cli.connect import bootstrap_option, own_client
from kqueue.cli.output import columns, output_option, print_json
from kqueue.cli.partition_conditions import NO_LEADER, Condition, conditions_of

if TYPE_CHECKING:
    from kqueue.client import Client, ClusterMetadata, Reassignment, TopicPartition
    from kqueue.client.metadata import PartitionMetadata

MIN_ISR = "min.insync.replicas"
_ROWS = (
    ("brokers", "brokers"),
    ("fenced_brokers", "fenced brokers"),
    ("topics", "topics"),
    ("partitions", "partitions"),
    ("unavailable", "without a leader"),
    ("under_replicated", "under-replicated"),
    ("under_min_isr", "below min.insync.replicas"),
    ("at_min_isr", "at min.insync.replicas"),
    ("not_preferred", "not led by their preferred leader"),
    ("reassigning", "being moved"),
)


@click.command()
@output_option
@bootstrap_option
def describe(as_json: bool, bootstrap: str) -> None:
    """Show how many partitions lack a leader, replicas, or their preferred leader.

    \b
      kqueue cluster describe
      kqueue topics describe --under-replicated

    The second line shows which partitions lack replicas.
    """
    with own_client(bootstrap) as client:
        cluster = client.cluster.describe()
        metadata = client.metadata()
        moving = client.cluster.reassignments()
        counts = _counts(metadata, moving, _min_isr(client, list(metadata.topics)))
    state = {
        "cluster_id": cluster.cluster_id,
        "controller": _node(cluster.controller),
        "brokers": len(cluster.brokers),
        "fenced_brokers": len(cluster.fenced),
        "topics": len(metadata.topics),
        **counts,
    }
    if as_json:
        print_json(state)
        return
    controller = "none" if state["controller"] is None else state["controller"]
    click.echo(f"Cluster {cluster.cluster_id}, controller {controller}\n")
    click.echo(columns(("STATE", "COUNT"), [(words, state[key]) for key, words in _ROWS]))


@click.command()
@output_option
@bootstrap_option
def brokers(as_json: bool, bootstrap: str) -> None:
    """Show each broker's address and state, and how many partitions it leads and holds.

    \b
      kqueue cluster brokers
      kqueue cluster brokers -o json

    A fenced broker is registered, but it did not answer in time: it leads nothing. OUT OF SYNC are
    replicas that lag behind their leader.
    """
    with own_client(bootstrap) as client:
        cluster = client.cluster.describe()
        metadata = client.metadata()
    leads, preferred, replicas, lagging = _load(metadata)
    rows = [
        {
            "id": id,
            "host": node.host,
            "port": node.port,
            "rack": node.rack,
            "state": "fenced" if id in cluster.fenced else "unfenced",
            "is_controller": id == cluster.controller,
            "leads": leads[id],
            "preferred": preferred[id],
            "replicas": replicas[id],
            "out_of_sync": lagging[id],
        }
        for id, node in cluster.brokers.items()
    ]
    if as_json:
        print_json(rows)
        return
    head = ("ID", "HOST", "PORT", "RACK", "STATE", "CONTROLLER", "LEADS", "REPLICAS", "OUT OF SYNC")
    click.echo(columns(head, map(_cells, rows)))


def _cells(row: dict[str, Any]) -> list[object]:
    keys = ("id", "host", "port", "rack", "state")
    head = ["-" if row[key] is None else row[key] for key in keys]
    return [*head, "yes" if row["is_controller"] else "", row["leads"], row["replicas"], row["out_of_sync"]]


def _partitions(metadata: ClusterMetadata) -> Iterator[PartitionMetadata]:
    for topic in metadata.topics.values():
        yield from topic.partitions.values()


def _load(metadata: ClusterMetadata) -> tuple[Counter[int], Counter[int], Counter[int], Counter[int]]:
    """Return by broker: partitions that it leads, that it is to lead, that it holds, that lag."""
    leads, preferred, replicas, lagging = (Counter[int]() for _ in range(4))
    for partition in _partitions(metadata):
        leads[partition.leader] += 1
        preferred.update(partition.replicas[:1])
        replicas.update(partition.replicas)
        lagging.update(set(partition.replicas) - set(partition.in_sync))
    return leads, preferred, replicas, lagging


def _counts(
    metadata: ClusterMetadata, moving: dict[TopicPartition, Reassignment], min_isr: dict[str, int]
) -> dict[str, int]:
    counts: Counter[Condition] = Counter()
    not_preferred = 0
    for topic in metadata.topics.values():
        for index, partition in topic.partitions.items():
            move = moving.get((topic.name, index))  # type: ignore[call-overload]
            counts.update(
                conditions_of(
                    partition.leader,
                    partition.replicas,
                    partition.in_sync,
                    adding=() if move is None else move.adding,
                    min_isr=min_isr[topic.name],
                )
            )
            not_preferred += partition.leader not in (NO_LEADER, *partition.replicas[:1])
    named = {one.value.replace("-", "_"): counts[one] for one in Condition}
    partitions = sum(len(topic.partitions) for topic in metadata.topics.values())
    return {"partitions": partitions, **named, "not_preferred": not_preferred, "reassigning": len(moving)}


def _min_isr(client: Client, names: list[str]) -> dict[str, int]:
    described = client.configs(ResourceType.TOPIC, names, [MIN_ISR])
    return {name: int(rows[MIN_ISR].value or 1) if MIN_ISR in rows else 1 for name, rows in described.items()}


def _node(id: int) -> int | None:
    return None if id == NO_LEADER else id
