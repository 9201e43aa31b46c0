"""`kqueue pipeline`: jobs on Spark, one module per subcommand; pyspark is imported on run."""

from __future__ import annotations

import click

from kqueue.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "ingest": LazyCommand("kqueue.cli.pipeline.ingest:ingest", "Write the events of topics to tables."),
    "archive": LazyCommand("kqueue.cli.pipeline.archive:archive", "Write the records of topics to Parquet."),
    "replay": LazyCommand("kqueue.cli.pipeline.archive:replay", "Send an archive to a broker."),
    "sweep": LazyCommand(
        "kqueue.cli.pipeline.sweep:sweep", "Delete the state of ended queries that wrote exactly once."
    ),
    "checkpoint": LazyCommand(
        "kqueue.cli.pipeline.checkpoint:checkpoint", "Make a stream's checkpoint one of Spark's own Kafka source."
    ),
    "pack": LazyCommand("kqueue.cli.pipeline.pack:pack", "Pack this environment for a Spark cluster."),
    "audit": LazyCommand("kqueue.cli.pipeline.audit:audit", "Count records, and find missing and repeated ones."),
}
EXAMPLES = """\b
  kqueue pipeline audit --topic orders
  kqueue pipeline archive kept --topic orders
  kqueue pipeline replay kept --topic orders-again

They need the extra `spark` and Java 17 (the extra `spark-jdk` installs it); docs/install.md has how to install."""


@click.group(cls=LazyGroup, table=COMMANDS, entry_points="kqueue.pipeline_commands", epilog=EXAMPLES)
def pipeline() -> None:
    """Jobs on Spark: from topics to tables, archives and reports.

    \b
      kqueue pipeline audit --topic orders
    """
