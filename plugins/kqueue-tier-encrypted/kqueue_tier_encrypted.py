"""Tiered storage for kqueue whose objects are encrypted before another object store gets them.

    object:  magic "KQTIER1\\0" (8) | salt (32) | size of the content, big-endian (8) | chunks
    chunk:   64 KiB of the content, the last one less, by AES-256-GCM | tag (16)

The key of an object is HKDF-SHA256 of the master key with the object's random salt, so the nonce of
a chunk is its number. Each chunk authenticates the head and the object's name: what is cut, moved
or put together from two objects is refused.
"""

from __future__ import annotations

import base64
import binascii
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from kqueue.tier.errors import TierCorrupt, TierError
from kqueue.tier.stores import address
from kqueue.tier.stores.contract import (
    Buffer,
    Object,
    ObjectEntry,
    TierStore,
    Version,
    check_key,
    check_range,
    counted_parts,
)

KEY_FILE_VARIABLE = "KQUEUE_TIER_KEY_FILE"
PREFIX = "encrypted-"
MAGIC = b"KQTIER1\0"
KEY_BYTES = SALT_BYTES = 32
CHUNK_SIZE = 64 << 10
TAG_SIZE = 16
_HEAD = struct.Struct(f">8s{SALT_BYTES}sQ")
_KEY_FILE_BYTES_MAX = 4096


class Head(NamedTuple):
    """What an object begins with. `size`: of its content, in bytes."""

    salt: bytes
    size: int

    def packed(self) -> bytes:
        """Return its bytes."""
        return _HEAD.pack(MAGIC, self.salt, self.size)


def encrypted_size(size: int) -> int:
    """Return the size of an object with so many bytes of content."""
    return _HEAD.size + size + TAG_SIZE * -(-size // CHUNK_SIZE)


def content_size(size: int) -> int:
    """Return the bytes of content in an object of this size; 0 if it is too small for any."""
    body = max(size - _HEAD.size, 0)
    return max(body - TAG_SIZE * -(-body // (CHUNK_SIZE + TAG_SIZE)), 0)


def load_key(environment: Mapping[str, str] = os.environ) -> bytes:
    """Return the master key. Raises: TierError: there is none, or it is not 32 bytes in base64."""
    path = environment.get(KEY_FILE_VARIABLE)
    if not path:
        raise TierError(f"{KEY_FILE_VARIABLE} is not set: it names the file with the key of tiered storage")
    try:
        with Path(path).open("rb") as file:
            text = file.read(_KEY_FILE_BYTES_MAX)
        key = base64.b64decode(text.strip(), validate=True)
    except (OSError, binascii.Error) as error:
        raise TierError(f"{KEY_FILE_VARIABLE}={path} can't be used: {error}") from None
    if len(key) != KEY_BYTES:
        raise TierError(f"{path}: expected 32 random bytes as base64, as `openssl rand -base64 32` prints them")
    return key


class EncryptedTierStore:
    """Encrypts what another store keeps. See `kqueue.tier.stores.contract.TierStore`."""

    def __init__(self, inner: TierStore, key: bytes) -> None:
        self._inner = inner
        self._key = key
        self.location = PREFIX + inner.location

    def put(self, key: str, parts: Iterable[Buffer], size: int) -> None:
        check_key(key)
        self._inner.put(key, self._encrypted(key, parts, size), encrypted_size(size))

    def put_if(self, key: str, body: bytes, expected: Version | None) -> Version:
        check_key(key)
        return self._inner.put_if(key, b"".join(self._encrypted(key, [body], len(body))), expected)

    def get(self, key: str, *, max_bytes: int) -> Object:
        body, version = self._inner.get(key, max_bytes=encrypted_size(max_bytes))
        head = self._head(key, body[: _HEAD.size])
        if encrypted_size(head.size) != len(body):
            raise TierCorrupt(f"{self.location}/{key} has {len(body)} bytes, expected {encrypted_size(head.size)}")
        return Object(self._decrypted(key, head, 0, memoryview(body)[_HEAD.size :]), version)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        check_range(start, length)
        head = self._head(key, self._inner.get_range(key, 0, _HEAD.size))
        if start + length > head.size:
            raise TierCorrupt(f"{self.location}/{key} has {head.size} bytes, expected {length} from {start} on")
        first, end = start // CHUNK_SIZE, -(-(start + length) // CHUNK_SIZE)
        begin = encrypted_size(first * CHUNK_SIZE)
        chunks = self._inner.get_range(key, begin, encrypted_size(min(end * CHUNK_SIZE, head.size)) - begin)
        content = self._decrypted(key, head, first, memoryview(chunks))
        return content[start - first * CHUNK_SIZE :][:length]

    def list(self, prefix: str) -> Iterator[ObjectEntry]:
        entries = self._inner.list(prefix)
        return (entry._replace(size=content_size(entry.size)) for entry in entries)

    def list_folders(self, prefix: str) -> Sequence[str]:
        return self._inner.list_folders(prefix)

    def delete(self, keys: Sequence[str]) -> None:
        self._inner.delete(keys)

    def close(self) -> None:
        self._inner.close()

    def _cipher(self, head: Head) -> AESGCM:
        derived = HKDF(SHA256(), KEY_BYTES, head.salt, b"kqueue-tier-encrypted 1").derive(self._key)
        return AESGCM(derived)

    def _encrypted(self, key: str, parts: Iterable[Buffer], size: int) -> Iterator[bytes]:
        head = Head(os.urandom(SALT_BYTES), max(size, 0))
        cipher, authenticated = self._cipher(head), head.packed() + key.encode()
        yield head.packed()
        waiting = bytearray()
        number = 0
        for part in counted_parts(parts, size):
            waiting += part
            while len(waiting) >= CHUNK_SIZE:
                yield cipher.encrypt(_nonce(number), bytes(waiting[:CHUNK_SIZE]), authenticated)
                del waiting[:CHUNK_SIZE]
                number += 1
        if waiting:
            yield cipher.encrypt(_nonce(number), bytes(waiting), authenticated)

    def _decrypted(self, key: str, head: Head, number: int, chunks: memoryview) -> bytes:
        """Return the content of whole chunks, the first of which has this number."""
        cipher, authenticated = self._cipher(head), head.packed() + key.encode()
        content = bytearray()
        for start in range(0, len(chunks), CHUNK_SIZE + TAG_SIZE):
            chunk = bytes(chunks[start : start + CHUNK_SIZE + TAG_SIZE])
            try:
                content += cipher.decrypt(_nonce(number), chunk, authenticated)
            except InvalidTag:
                raise TierCorrupt(
                    f"{self.location}/{key} can't be decrypted: it was changed, or put with another key than that of "
                    f"{KEY_FILE_VARIABLE}"
                ) from None
            number += 1
        return bytes(content)

    def _head(self, key: str, data: bytes) -> Head:
        if len(data) != _HEAD.size or not data.startswith(MAGIC):
            raise TierCorrupt(f"{self.location}/{key} is not encrypted: expected {MAGIC!r}, found {data[:8]!r}")
        _, salt, size = _HEAD.unpack(data)
        return Head(salt, size)


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "big")


def open_store(url: str) -> TierStore:
    """Return the store of a URL that begins with `encrypted-`. The entry points name this."""
    if not url.startswith(PREFIX):
        raise TierError(f"expected {PREFIX}s3://... or another store's URL after {PREFIX}")
    return EncryptedTierStore(address.open_store(url.removeprefix(PREFIX)), load_key())
