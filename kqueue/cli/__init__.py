"""The command `kqueue`: one module per subcommand, imported when the subcommand runs."""

from __future__ import annotations


def main() -> None:
    """Entry point of the console script."""
    from kqueue.base.terminal import escape_terminal_output
    from kqueue.cli.app import kqueue

    escape_terminal_output()
    kqueue(prog_name="kqueue")
