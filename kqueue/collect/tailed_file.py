"""One followed file, kept open so that it can be read to its end under any name, or none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from kqueue.collect.birth_time import birth_time_ns
from kqueue.collect.file_discovery import DiscoveredFile, FileId, id_of, is_rotated_name
from kqueue.collect.fingerprint import FileFingerprint, fingerprint_at
from kqueue.collect.line_splitter import cut
from kqueue.collect.prefix_hash import PrefixHash

READ_BYTES = 256 * 1024


class Line(NamedTuple):
    """A line, or joined lines, of which one record is made.

    `name`: the path under which the file was first seen. `source`: the unique id of the file's
    content; with `offset`, the line's position in bytes, it identifies the line. `part`: None for a
    whole line; else the number of the part, from 0.
    """

    value: bytes
    name: str
    source: str
    offset: int
    part: int | None


class ReadPosition(NamedTuple):
    """The place up to which a file was read.

    `parts`: records made of the line that continues here; 0: a line begins. `prefix`: the hash of
    all bytes before the position.
    """

    fingerprint: FileFingerprint = FileFingerprint()
    parts: int = 0
    prefix: PrefixHash = PrefixHash()

    @classmethod
    def at(cls, file: int, offset: int) -> ReadPosition:
        """Return the position `offset` in an open file, where a line begins.

        The position 0 if the file is shorter.
        """
        prefix = PrefixHash.of(file, offset)
        return cls() if prefix is None else cls(fingerprint_at(file, offset), 0, prefix)

    def holds_in(self, file: int) -> bool:
        """Return whether the open file `file` begins with the bytes before this position."""
        offset = self.fingerprint.offset
        return self.fingerprint.holds_in(file) and PrefixHash.of(file, offset) == self.prefix


class TailedFile:
    """An open file with two positions: `position_read`, up to which it was read, and `confirmed`.

    `path`: where it was last seen; `name`: where it was first seen. `lost_s`: since when no pattern
    matches it (moved or removed); None while one does.
    """

    def __init__(
        self, path: str, file: int, source: str, *, name: str | None = None, position_read: ReadPosition | None = None
    ) -> None:
        self.path = path
        self.name = name or path
        self.file = file
        self.source = source
        self.id: FileId = id_of(os.fstat(file))
        self.born_ns = birth_time_ns(file)
        self.position_read = self.confirmed = position_read or ReadPosition()
        self.lost_s: float | None = None
        self.grew_s: float | None = None
        self._seen = FileFingerprint()
        self._modified_ns: int | None = None

    @classmethod
    def open(cls, path: str, source: str, **more: object) -> TailedFile:
        """Open a file. Raises: OSError: it cannot be opened, or is no file any more."""
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a fifo of this name must not block
        return cls(path, file, source, **more)  # type: ignore[arg-type]

    def close(self) -> None:
        """Close the file."""
        os.close(self.file)

    def look(self, now_s: float) -> bool:
        """Update the size. Returns: False if the content changed: it was truncated or rewritten."""
        status = os.fstat(self.file)
        if not (self.position_read.fingerprint.holds_in(self.file) and self._seen.holds_in(self.file)):
            return False
        if status.st_size > self.size or self.grew_s is None:
            self.grew_s = now_s
        self._seen, self._modified_ns = fingerprint_at(self.file, status.st_size), status.st_mtime_ns
        return True

    @property
    def size(self) -> int:
        """Size in bytes at the last `look`."""
        return self._seen.offset

    @property
    def modified_ns(self) -> int | None:
        """Modification time at the last `look`, nanoseconds; None: no `look` yet."""
        return self._modified_ns

    @property
    def unread(self) -> int:
        """Unread bytes at the last `look`."""
        return max(0, self.size - self.position_read.fingerprint.offset)

    def read(self, line_bytes_max: int, count_max: int, bytes_max: int, *, take_unfinished: bool) -> list[Line]:
        """Return up to `count_max` next lines, of about `bytes_max` bytes but at least one line.

        Empty: there are none yet.

        Args:
            take_unfinished: also return a last line without a line end.
        """
        fingerprint, parts, prefix = self.position_read
        room = max(line_bytes_max + 1, min(READ_BYTES, bytes_max))
        data = os.pread(self.file, len(fingerprint.tail) + room, fingerprint.offset - len(fingerprint.tail))
        if not data.startswith(fingerprint.tail):
            return []  # truncated since the last look; the next one detects it
        data = data[len(fingerprint.tail) :]
        at_end = len(data) < room
        lines, consumed = [], 0
        for piece in cut(data, line_bytes_max, take_unfinished=take_unfinished and at_end, count_max=count_max):
            if piece.value or not (piece.ended and parts):  # the line end after the last part is no line
                part = None if piece.ended and not parts else parts
                lines.append(Line(piece.value, self.name, self.source, fingerprint.offset + consumed, part))
            consumed += piece.size
            parts = 0 if piece.ended else parts + 1
        read = data[:consumed]
        self.position_read = ReadPosition(fingerprint.moved(read), parts, prefix.moved(read))
        return lines

    def may_be_copied_to(self, file: DiscoveredFile) -> bool:
        """Return whether `file` may be a rotation's copy of this file, by folder, name and time."""
        mine, other = Path(self.path), Path(file.path)
        if other.parent != mine.parent or self._modified_ns is None:
            return False
        return file.modified_ns >= self._modified_ns and is_rotated_name(other.name, mine.name)

    def begins_like(self, path: str) -> bool:
        """Return whether one of the two files is the beginning of the other, by its fingerprint.

        An empty original has no copy with a content: it was emptied after the copy was made.
        """
        try:
            other = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            copied, size = os.fstat(other).st_size, os.fstat(self.file).st_size
            if copied and not size:
                return False
            size = min(copied, size)
            return fingerprint_at(other, size) == fingerprint_at(self.file, size)
        finally:
            os.close(other)

    def has_same_content(self, other: int) -> bool:
        """Return whether one of the two open files is the beginning of the other, by its hash."""
        size = min(os.fstat(other).st_size, os.fstat(self.file).st_size)
        return PrefixHash.of(other, size) == PrefixHash.of(self.file, size)

    def is_begun_in(self, other: int) -> bool:
        """Return whether the open file `other` begins with the content of the last `look`."""
        return self._seen.holds_in(other) and self.position_read.holds_in(other)

    def restart(self, source: str) -> None:
        """Begin at 0 with the new content id `source`: the content was replaced."""
        self.source = source
        self.position_read = self.confirmed = ReadPosition()
        self._seen, self._modified_ns, self.grew_s = FileFingerprint(), None, None

    def commit(self) -> None:
        """Mark all that was read as delivered."""
        self.confirmed = self.position_read
