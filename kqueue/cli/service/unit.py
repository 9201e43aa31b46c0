"""What an installed unit says."""

from __future__ import annotations

import re
from pathlib import Path

from kqueue.cli.service.layout import TARGETS, UNIT

UNIT_BYTES_MAX = 64 * 1024
_EXEC_START = re.compile(r"^ExecStart=(\S+) serve ", re.MULTILINE)


def installed_executable(root: Path) -> str:
    """Return the `kqueue` that the installed unit runs; empty: there is no unit, or it names
    none.
    """
    try:
        with (root / TARGETS[UNIT]).open("rb") as file:
            match = _EXEC_START.search(file.read(UNIT_BYTES_MAX).decode("utf-8", "replace"))
    except (FileNotFoundError, NotADirectoryError):
        return ""
    return match[1] if match else ""
