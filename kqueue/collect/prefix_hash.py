"""A hash over the bytes of a file before a position, carried along while the file is read."""

from __future__ import annotations

import hashlib
import os

PREFIX_BYTES_MAX = 16 * 1024 * 1024  # bounds what a start reads again of a long file
_CHUNK_BYTES = 1024 * 1024


class PrefixHash:
    """The SHA-256 of the first bytes of a file, at most `PREFIX_BYTES_MAX`. Immutable."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()
        self.size = 0

    @classmethod
    def of(cls, file: int, offset: int) -> PrefixHash | None:
        """Return the hash for position `offset` of an open file. None: the file is shorter."""
        if os.fstat(file).st_size < offset:
            return None
        prefix = cls()
        while prefix.size < min(offset, PREFIX_BYTES_MAX):
            data = os.pread(file, min(_CHUNK_BYTES, offset - prefix.size), prefix.size)
            if not data:
                return None
            prefix._update(data)
        return prefix

    def moved(self, data: bytes) -> PrefixHash:
        """Return the hash after `data`, which follows."""
        if self.size == PREFIX_BYTES_MAX or not data:
            return self
        prefix = PrefixHash()
        prefix._sha256, prefix.size = self._sha256.copy(), self.size
        prefix._update(data)
        return prefix

    def digest(self) -> str:
        """Return the hexadecimal digest."""
        return self._sha256.hexdigest()

    def _update(self, data: bytes) -> None:
        data = data[: PREFIX_BYTES_MAX - self.size]
        self._sha256.update(data)
        self.size += len(data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrefixHash) and (self.size, self.digest()) == (other.size, other.digest())

    def __hash__(self) -> int:
        return hash((self.size, self.digest()))
