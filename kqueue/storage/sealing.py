"""Secrets that a storage with a key keeps for others, such as sensitive settings in the metadata
store, which the storage does not hold.
"""

from __future__ import annotations

from typing import Protocol

from kqueue.storage.contract import Storage


class Sealer(Protocol):
    """Encrypts short texts with the key of a storage."""

    def seal(self, name: str, secret: str) -> str:
        """Return a text from which nobody learns the secret without the key.

        Args: name: what the secret is of; the text is of no use under another name.
        Raises: StorageFailed: the key can't be read.
        """
        ...

    def unseal(self, name: str, sealed: str) -> str:
        """Return the secret. Raises: StorageFailed: of another key or name, or damaged."""
        ...


def sealer_of(storage: Storage) -> Sealer | None:
    """Return the storage's sealer, its attribute ``sealer``; None: it has no key."""
    sealer: Sealer | None = getattr(storage, "sealer", None)
    return sealer
