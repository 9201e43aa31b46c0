"""`kqueue cluster`: id, brokers, features, quorum and API versions; commands about replicas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from kqueue.api.api_table import HEAD, ApiRow, api_rows
from kqueue.cli.cluster_state import brokers, describe
from kqueue.cli.cluster_wait import wait
from kqueue.cli.connect import (
    admin,
    bootstrap_option,
    cluster_metadata,
    find_broker,
    own_client,
    require,
    require_client,
)
from kqueue.cli.elect_leaders import elect, unregister
from kqueue.cli.output import columns, output_option, print_json, table_console
from kqueue.cli.reassign import reassign
from kqueue.wire.apis import API_VERSIONS, BY_KEY

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

DESCRIBE_QUORUM = 55
VERSION_FEATURES = 3
"""First version of ApiVersions that reports features."""


@click.group()
def cluster() -> None:
    """Show a cluster's brokers, replicas and features; move partitions and elect their leaders.

    \b
      kqueue cluster info
      kqueue cluster describe
      kqueue cluster brokers
      kqueue cluster elect --all
      kqueue cluster reassign plan --brokers 1,2,4 --file plan.json
      kqueue cluster wait --brokers 3
      kqueue cluster apis
    """


for _command in (describe, brokers, elect, reassign, unregister, wait):
    cluster.add_command(_command)


@cluster.command()
@output_option
@bootstrap_option
def info(as_json: bool, bootstrap: str) -> None:
    """Show the cluster's id, controller, brokers, features, quorum and API versions.

    \b
      kqueue cluster info
      kqueue cluster info -o json

    KAFKA is the version whose APIs a broker serves. The API versions are those of the controller.
    """
    require_client()
    find_broker(bootstrap)
    metadata = cluster_metadata(bootstrap)
    with admin(bootstrap) as client:
        versions = {id: client.get_broker_version_data(id) for id in metadata.brokers}
        served = versions[metadata.controller if metadata.controller in versions else min(versions)].api_versions
        features = _features(client, served)
        quorum = _quorum(client, served)
    shown = [
        {
            "id": id,
            "host": node.host,
            "port": node.port,
            "rack": node.rack,
            "is_controller": id == metadata.controller,
            "kafka": ".".join(map(str, versions[id].broker_version)),
        }
        for id, node in sorted(metadata.brokers.items())
    ]
    apis = [
        {"name": BY_KEY[key].name if key in BY_KEY else None, "key": key, "min": low, "max": high}
        for key, (low, high) in sorted(served.items())
    ]
    if as_json:
        print_json(
            {
                "cluster_id": metadata.cluster_id,
                "controller": metadata.controller,
                "brokers": shown,
                "features": features,
                "quorum": quorum,
                "apis": apis,
            }
        )
    else:
        click.echo(f"Cluster {metadata.cluster_id or 'without an id'}\n")
        _print_brokers(shown)
        _print_features(features, quorum)
        _print_apis(apis)


@cluster.command("apis")
@click.option("--offline", is_flag=True, help="Ask no broker: show what this kqueue serves, or why not.")
@output_option
@bootstrap_option
def list_apis(offline: bool, as_json: bool, bootstrap: str) -> None:
    """Ask a broker which APIs of the protocol it serves, in which versions; any broker of Kafka's
    protocol.

    \b
      kqueue cluster apis
      kqueue cluster apis -b kafka.example:9092 -o json
      kqueue cluster apis --offline

    The column BROKER has its versions, or `-`; the other those of Kafka 4.3.
    """
    rows = api_rows() if offline else _rows_of(_served(bootstrap))
    if as_json:
        print_json([row._asdict() for row in rows])
        return
    require("rich", "cli")
    from rich.table import Table

    head = HEAD if offline else (*HEAD[:2], "Broker", *HEAD[3:])
    table = Table(*head, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row.cells())
    table_console().print(table)


def _served(bootstrap: str) -> Mapping[int, tuple[int, int]]:
    """Return lowest and highest version of each API that the broker serves, by key."""
    with own_client(bootstrap) as client:
        return client.cluster.api_versions()


def _rows_of(served: Mapping[int, tuple[int, int]]) -> list[ApiRow]:
    """Return a row for each known API and for each that the broker serves."""
    known = {row.key: row._replace(served=served.get(row.key), reason="") for row in api_rows()}
    others = {
        key: ApiRow(key, f"unknown ({key})", versions, None, "") for key, versions in served.items() if key not in known
    }
    return [row for _, row in sorted((known | others).items())]


def _features(client: KafkaAdminClient, served: Mapping[int, tuple[int, int]]) -> list[dict[str, Any]]:
    """Return the features, by name; none of brokers that report none."""
    if served[API_VERSIONS][1] < VERSION_FEATURES:
        return []
    features = []
    for name, feature in sorted(client.describe_features().items()):
        supported_min, supported_max = feature.get("supported", (None, None))
        level = feature.get("finalized", (0, 0))[1]
        features.append({"name": name, "level": level, "supported_min": supported_min, "supported_max": supported_max})
    return features


def _quorum(client: KafkaAdminClient, served: Mapping[int, tuple[int, int]]) -> dict[str, Any] | None:
    """Return the quorum of the metadata; None: the broker does not report one."""
    if DESCRIBE_QUORUM not in served:
        return None
    ((partition,),) = [topic["partitions"] for topic in client.describe_metadata_quorum()["topics"]]
    return {
        "leader": partition["leader_id"],
        "epoch": partition["leader_epoch"],
        "high_watermark": partition["high_watermark"],
        "voters": [voter["replica_id"] for voter in partition["current_voters"]],
        "observers": [observer["replica_id"] for observer in partition["observers"]],
    }


def _print_brokers(brokers: list[dict[str, Any]]) -> None:
    keys = ("id", "host", "port", "rack", "kafka")
    rows = []
    for broker in brokers:
        cells = ["-" if broker[key] is None else broker[key] for key in keys]
        rows.append([*cells, "yes" if broker["is_controller"] else ""])
    click.echo(columns(("BROKER", "HOST", "PORT", "RACK", "KAFKA", "CONTROLLER"), rows) + "\n")


def _print_features(features: list[dict[str, Any]], quorum: dict[str, Any] | None) -> None:
    if features:
        rows = [
            (row["name"], row["level"], f"{row['supported_min']} to {row['supported_max']}")
            if row["supported_max"] is not None
            else (row["name"], row["level"], "-")
            for row in features
        ]
        click.echo(columns(("FEATURE", "LEVEL", "SUPPORTED"), rows) + "\n")
    if quorum is not None:
        keys = ("leader", "epoch", "high_watermark")
        ids = [", ".join(map(str, quorum[key])) or "-" for key in ("voters", "observers")]
        head = ("LEADER", "EPOCH", "METADATA END", "VOTERS", "OBSERVERS")
        click.echo(columns(head, [[*(quorum[key] for key in keys), *ids]]) + "\n")


def _print_apis(apis: list[dict[str, Any]]) -> None:
    served = [(api["name"] or "unknown", api["key"], f"{api['min']} to {api['max']}") for api in apis]
    click.echo(columns(("API", "KEY", "VERSIONS"), served))
