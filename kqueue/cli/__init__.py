"""The command `kqueue`: one module per subcommand, imported when the subcommand runs."""

from __future__ import annotations


def main() -> None:
    """Entry point of the console script."""
    from kqueue.cli.app import kqueue

    kqueue(prog_name="kqueue")
