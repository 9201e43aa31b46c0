"""`kqueue pipeline`: the jobs on Spark, as commands; one module per subcommand. pyspark is imported
when one runs.
"""

from __future__ import annotations

import click

from kqueue.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "ingest": LazyCommand("kqueue.cli.pipeline.ingest:ingest", "Take in the events of topics as tables."),
    "archive": LazyCommand("kqueue.cli.pipeline.archive:archive", "Write the records of topics to Parquet."),
    "replay": LazyCommand("kqueue.cli.pipeline.archive:replay", "Send an archive to a broker."),
    "sweep": LazyCommand("kqueue.cli.pipeline.sweep:sweep", "Forget queries that wrote exactly once and are gone."),
    "audit": LazyCommand(
        "kqueue.cli.pipeline.audit:audit", "Count records, and what is missing or repeated among them."
    ),
}
EXAMPLES = """\b
  kqueue pipeline audit --topic orders
  kqueue pipeline archive kept --topic orders
  kqueue pipeline replay kept --topic orders-again

They need the extra `spark` and a Java 17 (the extra `spark-jdk` brings one); the README says how to install them."""


@click.group(cls=LazyGroup, table=COMMANDS, entry_points="kqueue.pipeline_commands", epilog=EXAMPLES)
def pipeline() -> None:
    """Jobs on Spark: from topics to tables, archives and reports.

    \b
      kqueue pipeline audit --topic orders
    """
