"""`kqueue log`: work with the files of Kafka's and kqueue's logs, without a broker; one module per subcommand."""

from __future__ import annotations

import click

from kqueue.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "dump": LazyCommand("kqueue.cli.log.dump:dump", "Print what stands in log, index and snapshot files."),
    "verify": LazyCommand("kqueue.cli.log.verify:verify", "Check all files of a log against each other."),
    "repair": LazyCommand("kqueue.cli.log.repair:repair", "Make a sound copy of a damaged log."),
    "export": LazyCommand("kqueue.cli.log.export:export", "Write records to Parquet, Arrow or JSON lines."),
}
EXAMPLES = """\b
  kqueue log dump orders-0/00000000000000000000.log --print-data-log
  kqueue log dump orders-0

None of them writes into the folders it reads, and none needs a broker; a running one does no harm."""


@click.group(cls=LazyGroup, table=COMMANDS, entry_points="kqueue.log_commands", epilog=EXAMPLES)
def log() -> None:
    """Read, check and export the log folders of Kafka and kqueue.

    \b
      kqueue log dump kqueue-data/orders-0
    """
