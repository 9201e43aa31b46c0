"""`kqueue cluster info`: id, brokers and API versions of a cluster."""

from __future__ import annotations

from typing import Any

import click

from kqueue.cli.connect import admin, bootstrap_option, cluster_metadata, find_broker, require_client
from kqueue.cli.output import columns, output_option, print_json
from kqueue.wire.apis import BY_KEY


@click.group()
def cluster() -> None:
    """Show a cluster's id, controller and brokers.

    \b
      kqueue cluster info
    """


@cluster.command()
@output_option
@bootstrap_option
def info(as_json: bool, bootstrap: str) -> None:
    """Show the cluster's id, controller, brokers and API versions.

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
    brokers = [
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
    served = versions[metadata.controller if metadata.controller in versions else min(versions)].api_versions
    apis = [
        {"name": BY_KEY[key].name if key in BY_KEY else None, "key": key, "min": low, "max": high}
        for key, (low, high) in sorted(served.items())
    ]
    if as_json:
        print_json(
            {"cluster_id": metadata.cluster_id, "controller": metadata.controller, "brokers": brokers, "apis": apis}
        )
    else:
        _print(metadata.cluster_id, brokers, apis)


def _print(cluster_id: str | None, brokers: list[dict[str, Any]], apis: list[dict[str, Any]]) -> None:
    click.echo(f"Cluster {cluster_id or 'without an id'}\n")
    keys = ("id", "host", "port", "rack", "kafka")
    rows = []
    for broker in brokers:
        cells = ["-" if broker[key] is None else broker[key] for key in keys]
        rows.append([*cells, "yes" if broker["is_controller"] else ""])
    click.echo(columns(("BROKER", "HOST", "PORT", "RACK", "KAFKA", "CONTROLLER"), rows) + "\n")
    served = [(api["name"] or "unknown", api["key"], f"{api['min']} to {api['max']}") for api in apis]
    click.echo(columns(("API", "KEY", "VERSIONS"), served))
