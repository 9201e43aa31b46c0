"""`kqueue cluster wait`: the step between two brokers of a rolling restart."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from kqueue.base.addresses import Address
from kqueue.base.clock import monotonic_s
from kqueue.base.text import counted
from kqueue.cli.broker_wait import probe_broker
from kqueue.cli.connect import bootstrap_option, own_client

if TYPE_CHECKING:
    from kqueue.client.metadata import BrokerEndpoint

TIMEOUT_S = 60.0
POLL_S = 0.2


@click.command()
@click.option(
    "--brokers", "count", type=click.IntRange(min=1), help="Wait for so many brokers. Default: all that are registered."
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    default=TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="Give up after this time; 0 looks once.",
)
@bootstrap_option(waits=False)
def wait(count: int | None, timeout_s: float, bootstrap: str) -> None:
    """Wait until all brokers serve, and all replicas are in sync.

    \b
      kqueue cluster wait --brokers 3
      kqueue cluster wait --timeout 600

    Then one broker can be stopped. The exit status is 1 if that takes too long.
    """
    until_s = monotonic_s() + timeout_s
    while True:
        try:
            missing, state = _look(bootstrap, count)
        except click.ClickException as error:
            missing, state = [error.message], ""
        if not missing:
            click.echo(state)
            return
        if monotonic_s() >= until_s:
            raise click.ClickException(f"after {timeout_s:g} s: {'; '.join(missing)}")
        time.sleep(POLL_S)


def _look(bootstrap: str, count: int | None) -> tuple[list[str], str]:
    """Return what is missing, and what there is."""
    with own_client(bootstrap) as client:
        cluster = client.cluster.describe()
        metadata = client.metadata()
    partitions = [partition for topic in metadata.topics.values() for partition in topic.partitions.values()]
    serving = len(cluster.brokers) - len(cluster.fenced)
    silent = [id for id, node in cluster.brokers.items() if id not in cluster.fenced and not _answers(node)]
    lagging = sum(not set(partition.replicas) <= set(partition.in_sync) for partition in partitions)
    missing = []
    if serving < (count or len(cluster.brokers)):
        missing.append(f"brokers that serve: {serving} of {count or len(cluster.brokers)}")
    if cluster.fenced and count is None:
        missing.append("fenced: " + ", ".join(map(str, sorted(cluster.fenced))))
    if silent:  # stopped, and nobody has noticed yet
        missing.append("not reachable: " + ", ".join(map(str, sorted(silent))))
    if lagging:
        missing.append(f"partitions that lack replicas in sync: {lagging:,} of {len(partitions):,}")
    state = f"brokers that serve: {serving}; all replicas of {counted(len(partitions), 'partition')} are in sync."
    return missing, state


def _answers(node: BrokerEndpoint) -> bool:
    """Whether a broker answers."""
    try:
        probe_broker(str(Address(node.host, node.port)))
    except click.ClickException:
        return False
    return True
