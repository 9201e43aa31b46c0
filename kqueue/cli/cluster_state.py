"""`kqueue cluster describe` and `kqueue cluster brokers`: the state of brokers and replicas."""

from __future__ import annotations

from typing import Any

import click

from kqueue.admin.cluster_state import NO_LOAD, broker_loads, min_isr_of, partition_counts
from kqueue.admin.partition_conditions import NO_LEADER
from kqueue.cli.connect import bootstrap_option, own_client
from kqueue.cli.output import columns, output_option, print_json

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
        counts = partition_counts(metadata, moving, min_isr_of(client, metadata.topics))
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
    loads = broker_loads(metadata)
    rows = [
        {
            "id": id,
            "host": node.host,
            "port": node.port,
            "rack": node.rack,
            "state": "fenced" if id in cluster.fenced else "unfenced",
            "is_controller": id == cluster.controller,
            **loads.get(id, NO_LOAD)._asdict(),
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


def _node(id: int) -> int | None:
    return None if id == NO_LEADER else id
