"""Small programs (shell scripts) that kqueue writes to the user's cache folder. No pyspark."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return kqueue's cache folder: ``$XDG_CACHE_HOME/kqueue`` or ``~/.cache/kqueue``."""
    given = environ.get("XDG_CACHE_HOME")
    return (Path(given) if given else Path.home() / ".cache") / "kqueue"


def plain_name(path: Path) -> str:
    """Return a path as the name of a file or folder."""
    return re.sub(r"\W+", "-", str(path)).strip("-")


def is_written(file: Path, script: str) -> bool:
    """Return whether the file has this script."""
    return file.is_file() and file.read_text() == script


def write_program(file: Path, script: str) -> None:
    """Write a program. Concurrent calls in several processes are safe. Raises: OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    fresh.write_text(script)
    fresh.chmod(0o755)
    fresh.replace(file)
