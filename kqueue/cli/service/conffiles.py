"""Installs configuration files as dpkg does: what an administrator has edited is never overwritten.

A record has the checksum of each file as it was installed, in the form of ``sha256sum -c``. A file
that differs from it was edited; a new version of it is written beside it, as ``NAME.new``.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from kqueue.cli.service.layout import RECORD, ServiceFile

NEW_SUFFIX = ".new"
RECORD_BYTES_MAX = 64 * 1024
FILE_BYTES_MAX = 1024 * 1024
_LINE = re.compile(r"([0-9a-f]{64})  (\S+)\Z")


class State(StrEnum):
    """What is at a file's path."""

    MISSING = "missing"
    CURRENT = "installed"
    OUTDATED = "outdated"
    EDITED = "edited"
    EDITED_OUTDATED = "edited, new version not merged"


class Change(NamedTuple):
    """A file to write or to remove. `text` None: it is removed."""

    path: Path
    text: str | None
    reason: str


def checksum(text: bytes) -> str:
    """Return the SHA-256 in hexadecimal."""
    return hashlib.sha256(text).hexdigest()


def read_record(root: Path) -> dict[str, str]:
    """Return the checksum of each file as it was installed, by its path; empty: none was."""
    try:
        with (root / RECORD).open("rb") as file:
            lines = file.read(RECORD_BYTES_MAX).decode("utf-8", "replace").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {match[2]: match[1] for line in lines if (match := _LINE.match(line))}


def record_text(record: Mapping[str, str]) -> str:
    """Return the text of a record."""
    return "".join(f"{checksum}  {path}\n" for path, checksum in sorted(record.items()))


def state_of(root: Path, file: ServiceFile, record: Mapping[str, str]) -> State:
    """Return what is at the file's path. A file without a record counts as edited."""
    present = _checksum_at(root / file.path)
    own = checksum(file.text.encode())
    if present is None:
        return State.MISSING
    if present == own:
        return State.CURRENT
    if present == record.get(file.path):
        return State.OUTDATED
    return State.EDITED if record.get(file.path) == own else State.EDITED_OUTDATED


def install_changes(root: Path, files: Iterable[ServiceFile]) -> list[Change]:
    """Return what an installation has to write; empty: all is there. The record comes last, so that
    a crash leaves files that count as edited, and nothing is lost.
    """
    record = read_record(root)
    installed = dict(record)
    changes = []
    for file in files:
        path, state = root / file.path, state_of(root, file, record)
        if state is State.EDITED:
            continue
        if state is State.EDITED_OUTDATED:
            beside = path.with_name(path.name + NEW_SUFFIX)
            if _checksum_at(beside) != checksum(file.text.encode()):
                changes.append(Change(beside, file.text, f"{path} was edited, and stays: merge them by hand"))
            continue
        installed[file.path] = checksum(file.text.encode())
        if state is not State.CURRENT:
            changes.append(Change(path, file.text, "new" if state is State.MISSING else "new version"))
    if installed != record:
        changes.append(Change(root / RECORD, record_text(installed), "what was installed"))
    return changes


def uninstall_changes(root: Path, files: Iterable[ServiceFile], *, purge: bool) -> list[Change]:
    """Return what an uninstallation has to remove.

    Args: purge: settings and edited files too; otherwise they stay.
    """
    record = read_record(root)
    left = dict(record)
    changes = []
    for file in files:
        state = state_of(root, file, record)
        if not purge and (file.is_settings or state in (State.EDITED, State.EDITED_OUTDATED)):
            continue
        left.pop(file.path, None)
        if state is not State.MISSING:
            changes.append(Change(root / file.path, None, "edited" if state is State.EDITED else "no longer needed"))
        beside = root / (file.path + NEW_SUFFIX)
        if beside.is_file():
            changes.append(Change(beside, None, "no longer needed"))
    if left != record:
        changes.append(Change(root / RECORD, record_text(left) if left else None, "what is left"))
    return changes


def apply(change: Change) -> None:
    """Make a change. Raises OSError.

    Durability: a file is replaced as a whole; a crash leaves the old one or the new one.
    """
    if change.text is None:
        change.path.unlink(missing_ok=True)
        return
    change.path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{change.path.name}.", dir=change.path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(change.text)
            os.fchmod(file.fileno(), 0o644)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(change.path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def _checksum_at(path: Path) -> str | None:
    """Return the checksum of a file; None: there is none. A huge file counts as its beginning."""
    try:
        with path.open("rb") as file:
            return checksum(file.read(FILE_BYTES_MAX))
    except (FileNotFoundError, NotADirectoryError):
        return None
