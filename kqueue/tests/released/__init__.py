"""Data folders that versions of kqueue wrote, with what their brokers served from them.

`python -m kqueue.tests.released 0.1.0` makes the folder of this source; each release keeps one. A
test opens every one with today's broker. `git tag` and `BEFORE_RELEASES` name the sources.
"""

from __future__ import annotations

import json
import lzma
import tarfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "data" / "released"
DATA, SERVED = "-data.tar.xz", "-served.json.xz"
BEFORE_RELEASES = {
    "2026-11-21": "2301bad6",  # the first broker that could be served
    "2026-11-23": "a6bde511",  # the last one with format 1 of the metadata store
    "2026-11-27": "915536a6",  # the store is committed to by a process; users, ACLs, quotas
}
"""Commits of brokers before the first release, by the name of their folder."""


def names() -> list[str]:
    """Return the names of all folders, those of before the first release first."""
    return sorted((path.name.removesuffix(DATA) for path in FOLDER.glob(f"*{DATA}")), key=_order)


def unpack(name: str, target: Path) -> Path:
    """Unpack a data folder below `target`; return its path."""
    with tarfile.open(FOLDER / f"{name}{DATA}") as tar:
        tar.extractall(target, filter="data")
    return target / "data"


def served(name: str) -> dict[str, Any]:
    """Return the contents (`contents.describe`) that the folder's own broker served."""
    contents: dict[str, Any] = json.loads(lzma.decompress((FOLDER / f"{name}{SERVED}").read_bytes()))
    return contents


def _order(name: str) -> tuple[bool, list[int]]:
    return "-" not in name, [int(part) for part in name.replace("-", ".").split(".")]
