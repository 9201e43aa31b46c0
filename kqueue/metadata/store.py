"""The contract of the metadata store: a small, durable map from text keys to bytes, changed by
guarded commits.

Calls block, so they run in jobs (`kqueue.base.jobs`), never on the owner thread; a store may be
called from several threads. One machine needs `read` and `commit`; what several machines need
besides (registration, campaigns, watches) joins this contract as further methods, with the store
that has them.

Plugins bring theirs under the entry-point group `kqueue.metadata`: a callable that takes the data
folder's path, which `kqueue.testing.check_metadata_store` tests. Whatever else one of them raises,
or returns, is made a StorageFailed with its name (`guard`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

KEY_LENGTH_MAX = 1024
VALUE_SIZE_MAX = 1024 * 1024


class Entry(NamedTuple):
    """A value and its version, >= 1. A key never repeats a version, also not after a deletion."""

    value: bytes
    version: int


Snapshot = Mapping[str, Entry]


class MetadataStore(Protocol):
    """Keys are absolute paths (``/topics/orders``) of at most 1024 characters; values have up to 1
    MiB.
    """

    def read(self, prefix: str) -> Snapshot:
        """Return all entries whose key starts with `prefix`: a snapshot after all returned commits.

        Returns: full key -> entry, in order of keys.
        Raises: StorageFailed.
        """
        ...

    def commit(
        self, guards: Mapping[str, int | None], puts: Mapping[str, bytes], deletes: Iterable[str]
    ) -> Mapping[str, int]:
        """Apply all of `puts` and `deletes`, or nothing.

        Args:
            guards: for each key the version that it must have now, None where it must not exist;
                keys without a guard are changed unconditionally.
            deletes: keys to remove; a missing key is no error. No key is in both.
        Returns: the new version of every key in `puts`.
        Raises: Conflict: a guard does not hold, nothing was changed. StorageFailed: it is unknown
            whether anything changed (read again and compare). ValueError: a key or value breaks
            the limits.
        Durability: on return the change survives a power cut, where the store is durable at all.
        """
        ...

    def close(self) -> None:
        """Close files. A second call has no effect; all other calls then raise StorageFailed."""
        ...


def check_commit(guards: Mapping[str, int | None], puts: Mapping[str, bytes], deletes: Iterable[str]) -> None:
    """Check the arguments of `commit`, for all stores. Raises: ValueError: with the key and the
    reason.
    """
    deletes = list(deletes)
    for key in (*guards, *puts, *deletes):
        if not key.startswith("/") or len(key) > KEY_LENGTH_MAX or "\0" in key:
            raise ValueError(
                f"a key starts with '/', holds no NUL and has at most {KEY_LENGTH_MAX} characters, found {key[:80]!r}"
            )
    for key, value in puts.items():
        if len(value) > VALUE_SIZE_MAX:
            raise ValueError(f"{key}: a value has at most {VALUE_SIZE_MAX} bytes, found {len(value)}")
    for key in deletes:
        if key in puts:
            raise ValueError(f"{key}: put and deleted in one commit")


def check_guards(guards: Mapping[str, int | None], versions: Mapping[str, int]) -> str | None:
    """Return why the guards do not hold against the current `versions`; None if they hold."""
    for key, expected in guards.items():
        version = versions.get(key)
        if version != expected:
            return f"{key}: expected {_describe(expected)}, found {_describe(version)}"
    return None


def _describe(version: int | None) -> str:
    return "no entry" if version is None else f"version {version}"
