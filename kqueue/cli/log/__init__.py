"""`kqueue log`: work with the files of Kafka's and kqueue's logs, without a broker; one module per
subcommand.
"""

from __future__ import annotations

import click

from kqueue.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "dump": LazyCommand("kqueue.cli.log.dump:dump", "Print what stands in log, index and snapshot files."),
    "verify": LazyCommand("kqueue.cli.log.verify:verify", "Check all files of a log against each other."),
    "repair": LazyCommand("kqueue.cli.log.repair:repair", "Mend a damaged log, after copying it."),
    "export": LazyCommand("kqueue.cli.log.export:export", "Write records to Parquet, Arrow or JSON lines."),
}
EXAMPLES = """\b
  kqueue log dump orders-0/00000000000000000000.log --print-data-log
  kqueue log dump orders-0
  kqueue log verify kqueue-data
  kqueue log repair kqueue-data --copy-to kqueue-data-before
  kqueue log export orders-0 --to orders.parquet

None needs a broker. All but repair only read, so that a running broker does no harm; repair wants it stopped."""


@click.group(cls=LazyGroup, table=COMMANDS, entry_points="kqueue.log_commands", epilog=EXAMPLES)
def log() -> None:
    """Read, check and export the log folders of Kafka and kqueue.

    \b
      kqueue log dump kqueue-data/orders-0
    """
