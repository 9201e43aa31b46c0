"""Storage for kqueue that encrypts its files at rest.

`kqueue.storage=encrypted` names `open_encrypted`.
"""

from __future__ import annotations

from kqueue_storage_encrypted.keys import KeyRefused, KeySource
from kqueue_storage_encrypted.storage import EncryptedStorage, open_encrypted

__all__ = ["EncryptedStorage", "KeyRefused", "KeySource", "open_encrypted"]
