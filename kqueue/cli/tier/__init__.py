"""`kqueue tier`: what an object store has of topics with tiered storage.

Each subcommand has a module of its own.
"""

from __future__ import annotations

import click

from kqueue.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "list": LazyCommand("kqueue.cli.tier.listing:list_tier", "List topics, partitions and segments of a tier."),
    "status": LazyCommand(
        "kqueue.cli.tier.status:status", "Show what brokers have on disk, and what they have copied."
    ),
    "verify": LazyCommand("kqueue.cli.tier.verify:verify", "Check manifests against objects, and their bytes."),
    "recover": LazyCommand("kqueue.cli.tier.recover:recover", "Make the topics of a tier again in a new cluster."),
}
EXAMPLES = """\b
  kqueue tier list s3://bucket/prefix
  kqueue tier status
  kqueue tier verify s3://bucket/prefix --checksums
  kqueue tier recover s3://bucket/prefix --dry-run

URLs are those of the broker's setting kqueue.tier.url: s3, gs, az or file."""


@click.group(cls=LazyGroup, table=COMMANDS, entry_points="kqueue.tier_commands", epilog=EXAMPLES)
def tier() -> None:
    """Show, check and recover tiered storage: segments of logs in an object store (KIP-405).

    \b
      kqueue tier list s3://bucket/prefix

    `kqueue log dump`, `verify` and `export` take URLs of tiers and of partitions in them, too.
    """
