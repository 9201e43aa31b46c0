"""The command `kqueue`: one module per subcommand, imported when the subcommand runs."""

from __future__ import annotations

import os
import signal
import threading


def main() -> None:
    """Entry point of the console script."""
    if threading.current_thread() is threading.main_thread():
        # until the command runs there is nothing to clean up, and a traceback would help nobody
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(130))
    from kqueue.base.terminal import escape_terminal_output
    from kqueue.cli.app import kqueue
    from kqueue.cli.exit_status import run

    escape_terminal_output()
    run(kqueue, "kqueue")
