"""Floor 9: the command `kqueue`, one module per subcommand, each imported only when it is asked
for.
"""

from __future__ import annotations


def main() -> None:
    """Entry point of the console script."""
    from kqueue.cli.app import kqueue

    kqueue(prog_name="kqueue")
