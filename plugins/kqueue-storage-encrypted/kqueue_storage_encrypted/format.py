"""What an encrypted file looks like. An empty file is empty; any other is a header and frames:

    header: magic 8 bytes "kqueue\\0E" | version uint16 = 1 | salt 32 bytes | check 16 bytes, see `keys`

    frame:  kind uint8 | size uint24 | position uint64 | last cut uint64 | nonce 12 bytes | ciphertext: size bytes | tag 16 bytes

All numbers are big-endian. `position` is where the frame's bytes begin in the plain file; size is 1
to 65,536 in a DATA frame. A CUT frame has size 0 and says that the plain file was cut to
`position`; `last cut` is where the last CUT frame before this one begins in the encrypted file, 0
if there is none. Nothing is ever written but at the end, and nothing that was synced is rewritten;
a cut at the end of a frame just takes the frames behind it away.

No frame crosses a boundary of blocks of 128 KiB, and where fewer than 49 bytes are left before one
there are zeros. So a frame begins at each boundary, and neither opening a file nor finding a
position in it takes more than a few of its blocks.

Encrypted with AES-256-GCM under the file's own key. The tag covers the ciphertext and

    associated: where the frame begins in the encrypted file uint64 | kind uint8 | size uint24 | position uint64 | last cut uint64

so a frame that was moved, swapped, cut out or taken from another file (other salt, other key) does
not pass.

Nonces are drawn at random, for each frame anew. So they depend on nothing that a crash could take
back: a counter, or the place in the file, would come again after a power cut that lost the last
frames, with the same key and other bytes. A file of 2^25 frames (a GiB of the smallest batches)
meets one nonce twice with a probability of 2^-47.
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
# How a frame begins: kind, size, and two numbers below 2^48. Ciphertext looks like it once in 2^46
# positions, and then has no tag.
_BEGIN = re.compile(rb"(?s)(?=[\x01\x02][\x00\x01]..\0\0.{6}\0\0)")

Buffer = bytes | bytearray | memoryview


class Head(NamedTuple):
    """A frame's header. `position`: in the plain file; `cut`: where the last CUT frame before it
    begins, 0 if there is none.
    """

    kind: int
    size: int
    position: int
    cut: int
    nonce: bytes


class Frame(NamedTuple):
    """A frame and where it begins in the encrypted file."""

    head: Head
    place: int

    @property
    def place_end(self) -> int:
        return self.place + OVERHEAD + self.head.size

    @property
    def position_end(self) -> int:
        """Where the plain file ends with this frame."""
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
        """The key of the file with this header; None: it is no header of a file of this folder, or
        damaged.
        """
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
        """A whole frame, to be written at `place`."""
        nonce = os.urandom(12)
        word = kind << 24 | len(data)
        return FRAME.pack(word, position, cut, nonce) + self._cipher.encrypt(
            nonce, data, ASSOCIATED.pack(place, word, position, cut)
        )

    def unseal(self, frame: Frame, sealed: Buffer) -> bytes | None:
        """What a frame holds, of its ciphertext and tag; None: it is damaged."""
        head = frame.head
        return self._decrypt(
            head.nonce, sealed, ASSOCIATED.pack(frame.place, head.kind << 24 | head.size, head.position, head.cut)
        )

    def unseal_at(self, raw: memoryview, at: int, place: int, position: int, size: int, cut: int) -> bytes | None:
        """What the DATA frame at `at` holds, which begins at `place` in the file; None: it is
        damaged, or not the one that was expected.
        """
        end = at + OVERHEAD + size
        if len(raw) < end:
            return None
        found = FRAME.unpack_from(raw, at)
        if found[:3] != (DATA << 24 | size, position, cut):
            return None
        return self._decrypt(found[3], raw[at + FRAME.size : end], ASSOCIATED.pack(place, *found[:3]))

    def _decrypt(self, nonce: bytes, sealed: Buffer, associated: bytes) -> bytes | None:
        try:
            return self._cipher.decrypt(nonce, sealed, associated)
        except InvalidTag:
            return None


def read_head(data: Buffer, at: int) -> Head | None:
    """The header at `at`; None: that can't be one."""
    if len(data) - at < FRAME.size:
        return None
    word, position, cut, nonce = FRAME.unpack_from(data, at)
    kind, size = word >> 24, word & 0xFFFFFF
    fits = 1 <= size <= CHUNK_BYTES if kind == DATA else kind == CUT and size == 0
    return Head(kind, size, position, cut, nonce) if fits and position < POSITION_MAX and cut < POSITION_MAX else None


def begins(data: Buffer, at: int) -> list[int]:
    """Where, from `at` on, a frame may begin."""
    return [match.start() for match in _BEGIN.finditer(data, at)]


def room(place: int) -> int:
    """Bytes from `place` to the end of its block."""
    return BLOCK_BYTES - place % BLOCK_BYTES


def padding(place: int) -> int:
    """Zeros that have to stand at `place` before the next frame."""
    return left if (left := room(place)) <= OVERHEAD else 0
