"""Recognises a file by the bytes at its beginning and the bytes before a position."""

from __future__ import annotations

import hashlib
import os
from typing import NamedTuple

FINGERPRINT_BYTES = 256
DISTINCTIVE_BYTES = 2 * FINGERPRINT_BYTES  # from here on both byte ranges are disjoint, and identify a copy


class FileFingerprint(NamedTuple):
    """A position in a file, the first bytes of the file, and the bytes before the position.

    Each part has at most `FINGERPRINT_BYTES` bytes.
    """

    offset: int = 0
    head: bytes = b""
    tail: bytes = b""

    def moved(self, data: bytes) -> FileFingerprint:
        """Return the fingerprint after `data`, which was read from this position."""
        head = self.head if len(self.head) == FINGERPRINT_BYTES else (self.head + data)[:FINGERPRINT_BYTES]
        return FileFingerprint(self.offset + len(data), head, (self.tail + data)[-FINGERPRINT_BYTES:])

    def holds_in(self, file: int) -> bool:
        """Return whether the open file `file` has these bytes at these positions."""
        return _at(file, self.offset) == self

    @property
    def is_distinctive(self) -> bool:
        """Whether it identifies a copy with another inode: short beginnings are often equal."""
        return self.offset >= DISTINCTIVE_BYTES

    def print(self) -> FingerprintDigest:
        """Return the digest to store."""
        return FingerprintDigest(self.offset, _digest(self.head), _digest(self.tail))


class FingerprintDigest(NamedTuple):
    """A fingerprint to store: SHA-256 digests, so that the state file discloses no logged bytes."""

    offset: int
    head: str
    tail: str

    def find_in(self, file: int) -> FileFingerprint | None:
        """Return the fingerprint if the open file `file` has such bytes at these positions."""
        fingerprint = _at(file, self.offset)
        return fingerprint if fingerprint is not None and fingerprint.print() == self else None


def fingerprint_at(file: int, offset: int) -> FileFingerprint:
    """Return the fingerprint of a position in an open file.

    That of position 0 if the file is shorter.
    """
    return _at(file, offset) or FileFingerprint()


def last_line_end(file: int, size: int, back_bytes_max: int) -> int:
    """Return the end of the last complete line in the first `size` bytes.

    Returns: `size` if no line ends within the last `back_bytes_max` bytes.
    """
    back = min(size, back_bytes_max)
    newline = os.pread(file, back, size - back).rfind(b"\n")
    if newline < 0:
        return size if back < size else 0
    return size - back + newline + 1


def _at(file: int, offset: int) -> FileFingerprint | None:
    size = min(offset, FINGERPRINT_BYTES)
    head, tail = os.pread(file, size, 0), os.pread(file, size, offset - size)
    return FileFingerprint(offset, head, tail) if len(head) == len(tail) == size else None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
