"""Loads the master key and derives the keys of folders and files.

    master key        32 bytes, outside of the folder: in a file or an environment variable
      + folder salt   -> key of the folder, and a check value that detects a wrong key
                         (file KEY_CHECK of the folder)
        + file salt   -> AES-256-GCM key of one file, and a check value of its header
                         (header of each file, see `format`)

Each arrow is HKDF-SHA256 (RFC 5869). So no two files share a key, and a file copied from another
folder is rejected.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from kqueue.base.errors import StorageFailed
from kqueue.storage import Storage

KEY_FILE_VARIABLE = "KQUEUE_ENCRYPTION_KEY_FILE"
KEY_VARIABLE = "KQUEUE_ENCRYPTION_KEY"
KEY_CHECK = ".kqueue-encryption"
KEY_BYTES = 32
SALT_BYTES = 32
CHECK_BYTES = 16
_KEY_FILE_BYTES_MAX = 4096
_TITLE = "kqueue-storage-encrypted 1"
_EXPECTED = "expected 32 random bytes as base64 or as 64 hexadecimal digits, such as `openssl rand -base64 32` prints"


class KeyRefused(StorageFailed):
    """There is no key, it is malformed, or it is not the key of this folder."""


@dataclass(frozen=True)
class KeySource:
    """Where the master key is: the path of a file, or the name of an environment variable.

    It contains no key, so it may be sent to other processes.
    """

    file: str | None = None
    variable: str | None = None

    def load(self) -> bytes:
        """Return the master key.

        Raises: KeyRefused: it is missing or malformed; the message does not contain it.
        """
        if self.file is not None:
            return _decode(self._read(self.file), f"the key file {self.file}")
        assert self.variable is not None, "a key is in a file or in a variable"
        text = os.environ.get(self.variable)
        if text is None:
            raise KeyRefused(f"the environment variable {self.variable} is not set: {_EXPECTED}")
        return _decode(text, f"the environment variable {self.variable}")

    @staticmethod
    def _read(path: str) -> str:
        try:
            with open(path, "rb") as file:
                return file.read(_KEY_FILE_BYTES_MAX + 1).decode("ascii", "replace")
        except OSError as error:
            raise KeyRefused(f"can't read the key file {path}: {error.strerror}") from None


def key_source(environment: Mapping[str, str]) -> KeySource:
    """Return the source named by `KQUEUE_ENCRYPTION_KEY_FILE` or `KQUEUE_ENCRYPTION_KEY`.

    Raises: KeyRefused: neither variable is set, or both.
    """
    file, named = environment.get(KEY_FILE_VARIABLE), KEY_VARIABLE in environment
    if bool(file) == named:
        how_many = "both" if named else "neither"
        raise KeyRefused(
            f"encrypted storage needs its key: set {KEY_FILE_VARIABLE} (a path) or {KEY_VARIABLE}; {how_many} of them "
            "is set"
        )
    return KeySource(file=str(Path(file).absolute())) if file else KeySource(variable=KEY_VARIABLE)


def _decode(text: str, place: str) -> bytes:
    text = text.strip()
    try:
        key = (
            bytes.fromhex(text)
            if len(text) == 2 * KEY_BYTES
            else base64.b64decode(text.translate({45: "+", 95: "/"}), validate=True)
        )
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise KeyRefused(f"{place} holds no key: {_EXPECTED}; found {len(text)} characters")
    return key


def derive(key: bytes, salt: bytes, purpose: bytes, size: int) -> bytes:
    """Derive `size` bytes from `key` by HKDF-SHA256."""
    return HKDF(algorithm=SHA256(), length=size, salt=salt, info=b"kqueue-storage-encrypted 1 " + purpose).derive(key)


class FolderKey:
    """The key of one data folder."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def file_key(self, salt: bytes) -> tuple[AESGCM, bytes]:
        """The cipher of the file with this salt, and the check value of its header."""
        derived = derive(self._key, salt, b"file", KEY_BYTES + CHECK_BYTES)
        return AESGCM(derived[:KEY_BYTES]), derived[KEY_BYTES:]


def open_folder(storage: Storage, source: KeySource) -> FolderKey:
    """The key of the folder that `storage` is; a new, empty folder is given its salt and check
    value, durably.

    Raises KeyRefused: it is another folder's key, or the folder holds files and was not made with
    one. StorageFailed.
    """
    master = source.load()
    if not storage.exists(KEY_CHECK):
        there = [
            entry.name for entry in storage.list("") if (entry.size or entry.is_folder) and entry.name != "lost+found"
        ]
        if there:
            raise KeyRefused(
                f"{storage.location} holds {there[0]!r} but no {KEY_CHECK}: it was not made with encryption, or "
                "has lost that file; "
                "take an empty folder, or bring the file back"
            )
        salt = os.urandom(SALT_BYTES)
        storage.write_atomic(KEY_CHECK, f"{_TITLE}\nsalt {salt.hex()}\ncheck {_check(master, salt).hex()}\n".encode())
    salt, check = _read_check(storage)
    if not hmac.compare_digest(_check(master, salt), check):
        raise KeyRefused(f"{storage.location} was encrypted with another key than the one that was given")
    return FolderKey(derive(master, salt, b"folder", KEY_BYTES))


def _check(master: bytes, salt: bytes) -> bytes:
    return derive(master, salt, b"check", CHECK_BYTES)


def _read_check(storage: Storage) -> tuple[bytes, bytes]:
    file = storage.open(KEY_CHECK)
    try:
        lines = file.read_at(0, 1024).decode("ascii", "replace").splitlines()
    finally:
        file.close()
    try:
        title, salt, check = lines
        if title == _TITLE and salt.startswith("salt ") and check.startswith("check "):
            values = bytes.fromhex(salt[5:]), bytes.fromhex(check[6:])
            if [len(value) for value in values] == [SALT_BYTES, CHECK_BYTES]:
                return values
    except ValueError:
        pass
    raise KeyRefused(
        f"{storage.location}/{KEY_CHECK} is damaged, or of a newer version: expected {_TITLE!r} with a salt and a "
        "check value"
    )
