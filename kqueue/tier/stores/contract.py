"""Contract of an object store: named, immutable or conditionally replaced sequences of bytes.

Keys are relative to the store's URL: parts of letters, digits, ".", "_" and "-", with "/" between
them. No key is the folder of another key. A prefix is "" (the whole store) or such a path; a "/" at
its end changes nothing. `topics/a` is the prefix of `topics/a/x`, not of `topics/ab`.

Consistency: a finished put or delete is what later calls of `get`, `get_range` and `put_if` see.
Lists may lag behind by seconds: that a key is missing in a list does not prove that there is no
object.

Errors, all of `kqueue.tier.errors`, and none else:
    ObjectNotFound    no object has this key
    ObjectChanged     the condition of `put_if` does not hold; nothing was changed
    TierDenied        the credentials; nothing was changed
    TierCorrupt       the object is longer or shorter than asked for
    TierUnavailable   may be repeated; a put or delete may have taken place, or take place later
    TierError         anything else, e.g. the store is closed
    ValueError        a key, prefix, range or size that no caller should ask for

Plugins register under the entry-point group `kqueue.tiers`, by the scheme of their URLs: a callable
that takes the URL. `kqueue.testing.check_tier_store` tests one.

Thread: every method may be called from several threads at once. They block.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

Buffer = bytes | bytearray | memoryview
Version = str
"""Opaque text that identifies the content of an object, e.g. an ETag or a generation.

Two versions of one key differ if the contents differ. Two puts of equal content may have the same
version, as ETags of S3 have: what is replaced by `put_if` holds a counter that each change
increases.
"""

KEY_LENGTH_MAX = 512
PART_LENGTH_MAX = 255
_KEY = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*", re.ASCII)


class ObjectEntry(NamedTuple):
    """One object in a list. `size`: bytes. `modified_ms`: of its last put, in milliseconds since
    1970 UTC by the clock of the store; it may be cut to seconds.
    """

    key: str
    size: int
    modified_ms: int


class Object(NamedTuple):
    """The whole of a small object."""

    body: bytes
    version: Version


class TierStore(Protocol):
    """An object store, below the prefix of its URL."""

    @property
    def location(self) -> str:
        """The URL for messages, without options and credentials."""
        ...

    def put(self, key: str, parts: Iterable[Buffer], size: int) -> None:
        """Write an object of `size` bytes, whole or not at all; an older one is replaced.

        Args:
            parts: the content in order; each part is read before the next is asked for, or kept
                unchanged until the call returns. An iterable whose `__iter__` begins anew can be
                sent again by retries; a generator can't.
            size: the sum of the parts. Stores choose by it how to send them.
        Durability: durable on return. After a crash meanwhile the object is the old or the new
            one, or there is none.
        Raises: ValueError: the parts have another size; nothing was written. What `parts` raises.
        """
        ...

    def put_if(self, key: str, body: bytes, expected: Version | None) -> Version:
        """Write a small object if its version still is `expected`; return the new version.

        Of several concurrent calls with one `expected`, one at most returns.

        Args: expected: of the object that is replaced; None: there must be no object.
        Durability: as `put`.
        Raises: ObjectChanged: there is another version, no object (with a version expected), or an
            object (with None).
        """
        ...

    def get(self, key: str, *, max_bytes: int) -> Object:
        """Return a whole object, and its version for `put_if`.

        Raises: ObjectNotFound. TierCorrupt: it has more than `max_bytes`; its bytes were not read.
        """
        ...

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return exactly `length` >= 1 bytes of an object from `start` on.

        Raises: ObjectNotFound. TierCorrupt: the object ends before.
        """
        ...

    def list(self, prefix: str) -> Iterator[ObjectEntry]:
        """Iterate over all objects below the prefix, in the order of their keys (code points).

        Objects whose names are no keys were not put by kqueue, and are left out. The iterator asks
        the store for the next page when it is needed, and raises what other calls raise.
        """
        ...

    def list_folders(self, prefix: str) -> Sequence[str]:
        """Return the names directly below the prefix that have objects below them, in order."""
        ...

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; missing ones are no error.

        Durability: durable on return. After an error any of them may be deleted.
        """
        ...

    def close(self) -> None:
        """Release connections and files. A second call does nothing; all others raise TierError
        then.
        """
        ...


def check_key(key: str) -> str:
    """Return `key` if it can be the name of an object.

    Raises: ValueError: an empty, "." or ".." part, another character, or too long.
    """
    if len(key) > KEY_LENGTH_MAX:
        raise ValueError(f"key {key[:40]!r}...: {len(key)} characters, at most {KEY_LENGTH_MAX} are allowed")
    if not _KEY.fullmatch(key):
        raise ValueError(f"key {key!r}: expected parts of letters, digits, '.', '_' and '-', with '/' between them")
    for part in key.split("/"):
        if part in (".", "..") or len(part) > PART_LENGTH_MAX:
            raise ValueError(f"key {key!r}: {part[:40]!r} can't be the name of a file or folder")
    return key


def is_key(name: str) -> bool:
    """Return whether `name` can be the name of an object that kqueue put."""
    try:
        check_key(name)
    except ValueError:
        return False
    return True


def check_prefix(prefix: str) -> str:
    """Return `prefix` with a "/" at its end, or "" for the whole store. Raises: ValueError."""
    if not prefix:
        return ""
    return check_key(prefix.removesuffix("/")) + "/"


def check_range(start: int, length: int) -> None:
    """Raises: ValueError: not a range of at least one byte."""
    if start < 0 or length < 1:
        raise ValueError(f"expected a range of 1 byte or more, found {length} bytes from {start} on")


def joined(parts: Iterable[Buffer], size: int) -> bytes:
    """Return the parts as one object. Raises: ValueError: they have not `size` bytes."""
    return b"".join(counted_parts(parts, size))


def counted_parts(parts: Iterable[Buffer], size: int) -> Iterator[Buffer]:
    """Iterate over the parts that are not empty.

    Raises: ValueError: they have more than `size` bytes, or fewer at their end.
    """
    rest = size
    for part in parts:
        rest -= len(part)
        if rest < 0:
            break
        if part:
            yield part
    if rest:
        raise ValueError(f"expected parts of {size} bytes, found {size - rest if rest > 0 else 'more'}")


def one_line(text: str) -> str:
    """Return text of a store or plugin as one short line, for messages."""
    return " ".join(text.split())[:300]
