"""`python -m kqueue.cli` is the command."""

from __future__ import annotations

import subprocess
import sys

from kqueue import __version__


def test_the_module_runs_the_command() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "kqueue.cli", "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout == f"kqueue {__version__}\n"
