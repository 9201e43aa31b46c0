"""One file that is followed: held open, so that it can be read to its end under any name, or none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from kqueue.collect.file_discovery import DiscoveredFile, FileId, id_of, is_rotated_name
from kqueue.collect.fingerprint import FileFingerprint, fingerprint_at
from kqueue.collect.line_splitter import cut

READ_BYTES = 256 * 1024


class Line(NamedTuple):
    """What becomes a record.

    name: the path under which its file was first seen. source: the name of that file's content,
    unique; with `offset`, the byte in the file at which the line begins, it names the line. part:
    None for a whole line; a line that comes in parts counts them from 0.
    """

    value: bytes
    name: str
    source: str
    offset: int
    part: int | None


class ReadPosition(NamedTuple):
    """How far a file has been read. parts: how many records have been made of the line that goes on
    here; 0: a line begins.
    """

    fingerprint: FileFingerprint = FileFingerprint()
    parts: int = 0


class TailedFile:
    """An open file with two places in it: what has been read, and what is known to have arrived
    (`confirmed`).

    `path` is where it was last seen; `name` stays what it was at first. `lost_s` is since when it
    has not been at a path that is asked for (moved by a rotation, or removed); None while it is.
    """

    def __init__(
        self, path: str, file: int, source: str, *, name: str | None = None, place: ReadPosition | None = None
    ) -> None:
        self.path = path
        self.name = name or path
        self.file = file
        self.source = source
        self.id: FileId = id_of(os.fstat(file))
        self.place = self.confirmed = place or ReadPosition()
        self.lost_s: float | None = None
        self.grew_s: float | None = None
        self._seen = FileFingerprint()
        self._modified_ns: int | None = None

    @classmethod
    def open(cls, path: str, source: str, **more: object) -> TailedFile:
        """Raises OSError: it can't be opened; also where it is no file any more."""
        file = os.open(
            path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        )  # a fifo that took the file's place must not hold us up
        return cls(path, file, source, **more)  # type: ignore[arg-type]

    def close(self) -> None:
        os.close(self.file)

    def look(self, now_s: float) -> bool:
        """See how long the file is now. Returns False if it is not what was read before: it was
        truncated, or written anew.
        """
        status = os.fstat(self.file)
        if not (self.place.fingerprint.holds_in(self.file) and self._seen.holds_in(self.file)):
            return False
        if status.st_size > self.size or self.grew_s is None:
            self.grew_s = now_s
        self._seen, self._modified_ns = fingerprint_at(self.file, status.st_size), status.st_mtime_ns
        return True

    @property
    def size(self) -> int:
        """In bytes, when it was last looked at."""
        return self._seen.offset

    @property
    def unread(self) -> int:
        """How many bytes there were to be read when it was last looked at."""
        return max(0, self.size - self.place.fingerprint.offset)

    def read(self, line_bytes_max: int, count_max: int, bytes_max: int, *, take_rest: bool) -> list[Line]:
        """The next lines, up to `count_max`; about `bytes_max` bytes, but always room for a line.
        Empty: there are none (yet).
        """
        fingerprint, parts = self.place
        room = max(line_bytes_max + 1, min(READ_BYTES, bytes_max))
        data = os.pread(self.file, len(fingerprint.tail) + room, fingerprint.offset - len(fingerprint.tail))
        if not data.startswith(fingerprint.tail):
            return []  # truncated since it was looked at: the next look will tell
        data = data[len(fingerprint.tail) :]
        at_end = len(data) < room
        lines, taken = [], 0
        for piece in cut(data, line_bytes_max, take_rest=take_rest and at_end, count_max=count_max):
            if piece.value or not (
                piece.ended and parts
            ):  # the bare end of a line that has been sent in parts is no line
                part = None if piece.ended and not parts else parts
                lines.append(Line(piece.value, self.name, self.source, fingerprint.offset + taken, part))
            taken += piece.size
            parts = 0 if piece.ended else parts + 1
        self.place = ReadPosition(fingerprint.moved(data[:taken]), parts)
        return lines

    def may_be_copied_to(self, file: DiscoveredFile) -> bool:
        """Whether a file's place, name and time are those of a copy of this one that a rotation has
        made since it was last looked at.
        """
        mine, other = Path(self.path), Path(file.path)
        if other.parent != mine.parent or self._modified_ns is None:
            return False
        return file.modified_ns >= self._modified_ns and is_rotated_name(other.name, mine.name)

    def begins_like(self, path: str) -> bool:
        """Whether one of the two files is, as far as a look at its ends tells, the beginning of the
        other.
        """
        try:
            other = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            size = min(os.fstat(other).st_size, os.fstat(self.file).st_size)
            return fingerprint_at(other, size) == fingerprint_at(self.file, size)
        finally:
            os.close(other)

    def is_begun_in(self, other: int) -> bool:
        """Whether the open file `other` has all that this one had when it was last looked at, as
        far as a look at the ends tells.
        """
        return self.place.fingerprint.holds_in(other) and self._seen.holds_in(other)

    def restart(self, source: str) -> None:
        """The content is another now: read it from its beginning, under a name of its own."""
        self.source = source
        self.place = self.confirmed = ReadPosition()
        self._seen, self._modified_ns, self.grew_s = FileFingerprint(), None, None

    def commit(self) -> None:
        """All that was read has arrived."""
        self.confirmed = self.place
