"""The agent's state on disk: a JSON file that is replaced atomically."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kqueue.collect.file_discovery import FileId
from kqueue.collect.fingerprint import FingerprintDigest

VERSION = 1
STATE_BYTES_MAX = 64 * 1024 * 1024


class FilePosition(NamedTuple):
    """The end of the part of a file's content that is delivered.

    `path`: where it was last; `name`: the path in the headers of its lines. `prefix`: the digest of
    the bytes before the position. `born_ns`, `modified_ns`: when the file was created and changed.
    None: unknown, or saved by a version that did not record it.
    """

    path: str
    name: str
    source: str
    id: FileId
    print: FingerprintDigest
    parts: int
    prefix: str | None = None
    born_ns: int | None = None
    modified_ns: int | None = None


class AgentState(NamedTuple):
    """The saved state.

    `patterns`: those of the command, which tell files that appeared meanwhile from others. `ends`:
    per partition the offset after the last confirmed record of this agent. `stopped`: the agent
    ended regularly.
    """

    patterns: tuple[str, ...] = ()
    positions: tuple[FilePosition, ...] = ()
    ends: tuple[tuple[int, int], ...] = ()
    stopped: bool = True


class StateUnusable(Exception):
    """The state file cannot be used; the message is a sentence for the user."""


class StateFile:
    """The file with an agent's state; `held` admits one agent at a time."""

    def __init__(self, path: Path, topic: str) -> None:
        self.path = path
        self.topic = topic
        self.new = path.with_name(path.name + ".new")
        self.lock = path.with_name(path.name + ".lock")
        self._last: bytes | None = None

    def names(self) -> set[str]:
        """Return the absolute paths of the files written here, which must not be collected."""
        return {str(path.absolute()) for path in (self.path, self.new, self.lock)}

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold a lock that excludes other agents; it ends with the process.

        Raises: StateUnusable.
        """
        try:
            import fcntl
        except ImportError:  # Windows has no flock
            yield
            return
        try:
            file = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StateUnusable(f"the positions can't be kept in {self.path}: {error.strerror}") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise StateUnusable(
                f"another agent keeps its positions in {self.path}; give this one another file with --state"
            ) from None
        finally:
            os.close(file)

    def load(self) -> AgentState | None:
        """Return the saved state, None if there is none.

        Raises: StateUnusable: it cannot be read, or belongs to another topic.
        """
        try:
            with self.path.open("rb") as file:
                text = file.read(STATE_BYTES_MAX)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StateUnusable(f"the positions in {self.path} can't be read: {error.strerror}") from None
        try:
            content = json.loads(text)
            topic, state = str(content["topic"]), _state_of(content)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise StateUnusable(
                f"{self.path} has no positions that this version can read; move it away to start over"
            ) from None
        if topic != self.topic:
            raise StateUnusable(
                f"{self.path} has the positions of topic {topic}; give this one another file with --state"
            )
        return state

    def save(self, state: AgentState) -> None:
        """Replace the saved state; an unchanged state is not written.

        Durability: on return. Raises: StateUnusable.
        """
        text = json.dumps({"version": VERSION, "topic": self.topic, **_content_of(state)}, indent=1).encode()
        if text == self._last:
            return
        try:
            self._replace(text)
        except OSError as error:
            raise StateUnusable(f"the positions can't be saved in {self.path}: {error.strerror}") from None
        self._last = text

    def _replace(self, text: bytes) -> None:
        with open(self.new, "wb", opener=_private) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        self.new.replace(self.path)
        if os.name != "nt":  # Windows cannot sync a folder
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _content_of(state: AgentState) -> dict[str, Any]:
    return {
        "stopped": state.stopped,
        "patterns": state.patterns,
        "ends": state.ends,
        "files": [
            {
                "path": position.path,
                "name": position.name,
                "source": position.source,
                "device": position.id[0],
                "inode": position.id[1],
                "offset": position.print.offset,
                "head": position.print.head,
                "tail": position.print.tail,
                "parts": position.parts,
                "prefix": position.prefix,
                "born_ns": position.born_ns,
                "modified_ns": position.modified_ns,
            }
            for position in state.positions
        ],
    }


def _state_of(content: Any) -> AgentState:
    """Return the state of parsed JSON.

    Raises: ValueError, KeyError, TypeError: the format is wrong.
    """
    if content["version"] != VERSION:
        raise ValueError("another version")
    return AgentState(
        tuple(map(str, content["patterns"])),
        tuple(map(_position_of, content["files"])),
        tuple((_count(partition), _count(end)) for partition, end in content["ends"]),
        bool(content["stopped"]),
    )


def _position_of(row: Any) -> FilePosition:
    fingerprint = FingerprintDigest(_count(row["offset"]), str(row["head"]), str(row["tail"]))
    prefix, born_ns, modified_ns = map(row.get, ("prefix", "born_ns", "modified_ns"))
    return FilePosition(
        path=str(row["path"]),
        name=str(row["name"]),
        source=str(row["source"]),
        id=(_count(row["device"]), _count(row["inode"])),
        print=fingerprint,
        parts=_count(row["parts"]),
        prefix=None if prefix is None else str(prefix),
        born_ns=None if born_ns is None else int(born_ns),
        modified_ns=None if modified_ns is None else int(modified_ns),
    )


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value
