"""Format of an encrypted file. An empty file has no bytes; any other is a header and frames:

    header: magic 8 bytes "kqueue\\0E" | version uint16 = 1 | salt 32 bytes |
            check 16 bytes, see `keys`

    frame:  kind uint8 | size uint24 | position uint64 | last cut uint64 | nonce 12 bytes |
            ciphertext: size bytes | tag 16 bytes

All numbers are big-endian. `position` is where the frame's bytes begin in the plain file. A DATA
frame has a size of 1 to 65,536. A CUT frame has size 0 and records that the plain file was
truncated to `position`. `last cut` is where the previous CUT frame begins in the encrypted file; 0:
there is none. All writes append; synced bytes are never rewritten. A truncation at the end of a
frame removes the frames behind it and writes no CUT frame.

No frame crosses a boundary of blocks of 128 KiB. Where fewer than 49 bytes are left before a
boundary, they are zeros. So a frame begins at each boundary, and opening a file or finding a
position reads only a few blocks.

Frames are encrypted with AES-256-GCM under the file's own key. The tag covers the ciphertext and

    associated: start of the frame in the encrypted file uint64 | kind uint8 | size uint24 |
                position uint64 | last cut uint64

so authentication fails for a frame that was moved, swapped, removed or copied from another file
(other salt, other key).

Each frame has a fresh random nonce. A counter, or the place in the file, would repeat after a power
failure that lost the last frames, with the same key and other bytes. In a file of 2^25 frames (a
GiB of the smallest batches) two nonces are equal with a probability of 2^-47.
"""

from __future__ import annotations

import os
import re
import struct
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from kqueue_storage_encrypted.keys import CHECK_BYTES, SALT_BYTES, FolderKey

MAGIC = b"kqueue\0E"
VERSION = 1
HEADER = struct.Struct(f">8sH{SALT_BYTES}s{CHECK_BYTES}s")
FRAME = struct.Struct(">IQQ12s")
ASSOCIATED = struct.Struct(">QIQQ")
TAG_BYTES = 16
OVERHEAD = FRAME.size + TAG_BYTES
DATA, CUT = 1, 2
CHUNK_BYTES = 64 * 1024
BLOCK_BYTES = 128 * 1024
POSITION_MAX = 2**48
# The start of a frame: kind, size, and two numbers below 2^48. Ciphertext matches once in 2^46
# positions, and then fails authentication.
_BEGIN = re.compile(rb"(?s)(?=[\x01\x02][\x00\x01]..\0\0.{6}\0\0)")

Buffer = bytes | bytearray | memoryview


class Head(NamedTuple):
    """The header of a frame.

    Attributes:
        position: start of its bytes in the plain file.
        cut: where the previous CUT frame begins in the encrypted file; 0: there is none.
    """

    kind: int
    size: int
    position: int
    cut: int
    nonce: bytes


class Frame(NamedTuple):
    """A frame; `place`: where it begins in the encrypted file."""

    head: Head
    place: int

    @property
    def place_end(self) -> int:
        return self.place + OVERHEAD + self.head.size

    @property
    def position_end(self) -> int:
        """Return the position in the plain file behind the bytes of this frame."""
        return self.head.position + self.head.size


class FileKey:
    """The key of one file; see `keys`."""

    def __init__(self, folder: FolderKey, salt: bytes) -> None:
        self.salt = salt
        self._cipher: AESGCM
        self._cipher, self._check = folder.file_key(salt)

    @classmethod
    def new(cls, folder: FolderKey) -> FileKey:
        return cls(folder, os.urandom(SALT_BYTES))

    @classmethod
    def read(cls, folder: FolderKey, header: bytes) -> FileKey | None:
        """Return the key of the file with this header; None: damaged, or of another folder."""
        if len(header) < HEADER.size:
            return None
        magic, version, salt, check = HEADER.unpack_from(header)
        if magic != MAGIC or version != VERSION:
            return None
        key = cls(folder, salt)
        return key if key._check == check else None

    def header(self) -> bytes:
        return HEADER.pack(MAGIC, VERSION, self.salt, self._check)

    def seal(self, kind: int, place: int, position: int, cut: int, data: Buffer) -> bytes:
        """Return a complete encrypted frame, to be written at `place`."""
        nonce = os.urandom(12)
        word = kind << 24 | len(data)
        return FRAME.pack(word, position, cut, nonce) + self._cipher.encrypt(
            nonce, data, ASSOCIATED.pack(place, word, position, cut)
        )

    def unseal(self, frame: Frame, sealed: Buffer) -> bytes | None:
        """Decrypt a frame. `sealed`: its ciphertext and tag. Returns: None: it is damaged."""
        head = frame.head
        return self._decrypt(
            head.nonce, sealed, ASSOCIATED.pack(frame.place, head.kind << 24 | head.size, head.position, head.cut)
        )

    def unseal_at(self, raw: memoryview, at: int, place: int, position: int, size: int, cut: int) -> bytes | None:
        """Decrypt the DATA frame at `at` in `raw`, which begins at `place` in the file.

        Returns: None: it is damaged, or not the expected frame.
        """
        end = at + OVERHEAD + size
        if len(raw) < end:
            return None
        fields = FRAME.unpack_from(raw, at)
        if fields[:3] != (DATA << 24 | size, position, cut):
            return None
        return self._decrypt(fields[3], raw[at + FRAME.size : end], ASSOCIATED.pack(place, *fields[:3]))

    def _decrypt(self, nonce: bytes, sealed: Buffer, associated: bytes) -> bytes | None:
        try:
            return self._cipher.decrypt(nonce, sealed, associated)
        except InvalidTag:
            return None


def read_head(data: Buffer, at: int) -> Head | None:
    """Return the frame header at `at`; None: the bytes are not a valid header."""
    if len(data) - at < FRAME.size:
        return None
    word, position, cut, nonce = FRAME.unpack_from(data, at)
    kind, size = word >> 24, word & 0xFFFFFF
    fits = 1 <= size <= CHUNK_BYTES if kind == DATA else kind == CUT and size == 0
    return Head(kind, size, position, cut, nonce) if fits and position < POSITION_MAX and cut < POSITION_MAX else None


def begins(data: Buffer, at: int) -> list[int]:
    """Return the indexes from `at` on where a frame may begin."""
    return [match.start() for match in _BEGIN.finditer(data, at)]


def room(place: int) -> int:
    """Return the number of bytes from `place` to the end of its block."""
    return BLOCK_BYTES - place % BLOCK_BYTES


def padding(place: int) -> int:
    """Return the number of zero bytes required at `place` before the next frame."""
    return left if (left := room(place)) <= OVERHEAD else 0
