"""Secrets that are kept outside of the data folder: sensitive settings, in the metadata store.

    base64(salt 32 | nonce 12 | AES-256-GCM of the secret, with its name as associated data)

The key is derived from the master key and the salt, and belongs to no folder: a broker with several
folders that lost one can read its settings still. See `keys`.
"""

from __future__ import annotations

import base64
import binascii
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from kqueue.base.errors import StorageFailed
from kqueue_storage_encrypted.keys import KEY_BYTES, SALT_BYTES, KeySource, derive

NONCE_BYTES = 12


class SettingSealer:
    """See `kqueue.storage.sealing.Sealer`. Raises KeyRefused: see `KeySource.load`."""

    def __init__(self, source: KeySource) -> None:
        self._master = source.load()

    def seal(self, name: str, secret: str) -> str:
        salt, nonce = os.urandom(SALT_BYTES), os.urandom(NONCE_BYTES)
        return base64.b64encode(
            salt + nonce + self._cipher(salt).encrypt(nonce, secret.encode(), name.encode())
        ).decode()

    def unseal(self, name: str, sealed: str) -> str:
        try:
            data = base64.b64decode(sealed, validate=True)
            salt, nonce = data[:SALT_BYTES], data[SALT_BYTES : SALT_BYTES + NONCE_BYTES]
            return self._cipher(salt).decrypt(nonce, data[SALT_BYTES + NONCE_BYTES :], name.encode()).decode()
        except (binascii.Error, InvalidTag, ValueError):
            raise StorageFailed("it is damaged, or was encrypted with another key") from None

    def _cipher(self, salt: bytes) -> AESGCM:
        return AESGCM(derive(self._master, salt, b"setting", KEY_BYTES))
