"""`kqueue log`: commands for log folders of Kafka and kqueue, without a broker.

Each subcommand has a module of its own.
"""

from __future__ import annotations

import click

from kqueue.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "dump": LazyCommand("kqueue.cli.log.dump:dump", "Print the contents of log, index and snapshot files."),
    "verify": LazyCommand("kqueue.cli.log.verify:verify", "Check all files of a log against each other."),
    "repair": LazyCommand("kqueue.cli.log.repair:repair", "Repair a damaged log, after a backup."),
    "export": LazyCommand("kqueue.cli.log.export:export", "Write records to Parquet, Arrow or JSON lines."),
}
EXAMPLES = """\b
  kqueue log dump orders-0/00000000000000000000.log --print-data-log
  kqueue log dump orders-0
  kqueue log verify kqueue-data
  kqueue log repair kqueue-data --copy-to kqueue-data-before
  kqueue log export orders-0 --to orders.parquet

No command needs a broker. All but repair only read, so a broker may use the folder; for repair, stop it."""


@click.group(cls=LazyGroup, table=COMMANDS, entry_points="kqueue.log_commands", epilog=EXAMPLES)
def log() -> None:
    """Read, check and export the log folders of Kafka and kqueue.

    \b
      kqueue log dump kqueue-data/orders-0
    """
