"""How a file is known again: by the bytes at its beginning, and those just before the place that
was read to.
"""

from __future__ import annotations

import hashlib
import os
from typing import NamedTuple

FINGERPRINT_BYTES = 256
DISTINCTIVE_BYTES = (
    2 * FINGERPRINT_BYTES
)  # from here on the two stretches don't overlap, and are enough to know a copy by


class FileFingerprint(NamedTuple):
    """A place in a file, with the first and the last of the bytes before it, `FINGERPRINT_BYTES` of each
    at most.
    """

    offset: int = 0
    head: bytes = b""
    tail: bytes = b""

    def moved(self, data: bytes) -> FileFingerprint:
        """The place behind `data`, which has been read from here."""
        head = self.head if len(self.head) == FINGERPRINT_BYTES else (self.head + data)[:FINGERPRINT_BYTES]
        return FileFingerprint(self.offset + len(data), head, (self.tail + data)[-FINGERPRINT_BYTES:])

    def holds_in(self, file: int) -> bool:
        """Whether the open file `file` has these bytes at these places."""
        return _at(file, self.offset) == self

    @property
    def is_distinctive(self) -> bool:
        """Whether a file with another inode that has these bytes may be taken for a copy: short
        beginnings are often the same.
        """
        return self.offset >= DISTINCTIVE_BYTES

    def print(self) -> FingerprintDigest:
        return FingerprintDigest(self.offset, _digest(self.head), _digest(self.tail))


class FingerprintDigest(NamedTuple):
    """A fingerprint to be kept: of the bytes their SHA-256 alone, because logs hold what should not lie
    about elsewhere.
    """

    offset: int
    head: str
    tail: str

    def find_in(self, file: int) -> FileFingerprint | None:
        """The fingerprint, if the open file `file` has such bytes at these places."""
        fingerprint = _at(file, self.offset)
        return fingerprint if fingerprint is not None and fingerprint.print() == self else None


def fingerprint_at(file: int, offset: int) -> FileFingerprint:
    """The fingerprint of a place in an open file; of its beginning if the file is shorter."""
    return _at(file, offset) or FileFingerprint()


def last_line_end(file: int, size: int, back_bytes_max: int) -> int:
    """Where the last whole line among the first `size` bytes ends; `size` if there is none so near
    to it.
    """
    back = min(size, back_bytes_max)
    found = os.pread(file, back, size - back).rfind(b"\n")
    if found < 0:
        return size if back < size else 0
    return size - back + found + 1


def _at(file: int, offset: int) -> FileFingerprint | None:
    size = min(offset, FINGERPRINT_BYTES)
    head, tail = os.pread(file, size, 0), os.pread(file, size, offset - size)
    return FileFingerprint(offset, head, tail) if len(head) == len(tail) == size else None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
