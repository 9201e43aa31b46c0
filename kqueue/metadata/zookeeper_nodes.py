"""The nodes of the ZooKeeper store: their paths, and what they hold. Format 1.

    <chroot>/kqueue/last                                persistent
    <chroot>/kqueue/data/<escaped key>                  persistent, one for each key
    <chroot>/kqueue/parts/<commit id>-<put>-<part>      persistent, parts of large values
    <chroot>/kqueue/sessions/<node id>-<broker epoch>   ephemeral: incarnation, UTF-8
    <chroot>/kqueue/controller/<term epoch>-<node id>   ephemeral, empty

`last` is a JSON object: `format`, `number` of the last commit, `broker_epoch` and
`controller_epoch` (the counters of both), and `history`: the last commits, oldest first, as
`[number, id, keys]`. `keys` is null if there were too many. Every commit sets `last` and compares
its version, so that commits follow one another; `id` is random, and tells whether a commit whose
answer was lost has happened.

A data node holds the number of the commit that wrote it (the version of its entry), a sign, and
the value: ``=`` the value itself, ``~`` compressed with zlib, ``@`` the name and the count of its
parts.
ZooKeeper's own version of a node is no version of an entry: a node that is created again begins at
0. Nor are the names of sessions ever used again, so that the existence of the node is the life of
the session.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import quote, unquote

from kqueue.base.errors import StorageFailed
from kqueue.metadata.store import VALUE_SIZE_MAX

FORMAT = 1
HISTORY_SIZE_MAX = 16 * 1024
"""Limit of the history in `last`, in characters of JSON: some hundred commits of few keys."""
PART_SIZE = 900_000
"""Bytes of a value in one part: below ZooKeeper's limit of a request, 1 MiB less one byte."""
PARTS_MAX = -(-VALUE_SIZE_MAX // PART_SIZE)
_COMPRESSED_FROM = 4096
_PLAIN, _COMPRESSED, _IN_PARTS = b"=", b"~", b"@"
_NUMBER_LENGTH_MAX = 20


class Layout:
    """The paths below `<chroot>/kqueue`."""

    def __init__(self, chroot: str) -> None:
        self.root = f"{chroot}/kqueue"
        self.last = f"{self.root}/last"
        self.data = f"{self.root}/data"
        self.parts = f"{self.root}/parts"
        self.sessions = f"{self.root}/sessions"
        self.controller = f"{self.root}/controller"

    def key(self, key: str) -> str:
        """Return the path of a key's node."""
        return f"{self.data}/{quote(key, safe='')}"

    def part(self, name: str) -> str:
        """Return the path of a part."""
        return f"{self.parts}/{name}"

    def session(self, node_id: int, epoch: int) -> str:
        """Return the path of a session; `epoch`: the broker's."""
        return f"{self.sessions}/{node_id}-{epoch}"

    def term(self, epoch: int, node_id: int) -> str:
        """Return the path of a term; `epoch`: the term's."""
        return f"{self.controller}/{epoch}-{node_id}"


def key_of(name: str) -> str:
    """Return the key of a data node's name."""
    return unquote(name)


def two_numbers(name: str) -> tuple[int, int] | None:
    """Return the numbers in the name of a session or a term; None: it is neither's name."""
    first, _, second = name.partition("-")
    if not (first.isascii() and first.isdecimal() and second.isascii() and second.isdecimal()):
        return None
    return int(first), int(second)


# --- last


class Commit(NamedTuple):
    """One commit of the history. `keys`: those that it put or deleted; None: too many."""

    number: int
    id: str
    keys: tuple[str, ...] | None


class Last(NamedTuple):
    """The content of the node `last`."""

    number: int = 0
    broker_epoch: int = 0
    controller_epoch: int = 0
    history: tuple[Commit, ...] = ()

    def after(self, id: str, keys: Iterable[str], *, broker_epochs: int = 0, controller_epochs: int = 0) -> Last:
        """Return what it holds after one more commit."""
        commit = Commit(self.number + 1, id, tuple(keys))
        if len(_history_text([commit])) > HISTORY_SIZE_MAX:
            commit = commit._replace(keys=None)
        history = [*self.history, commit]
        size = len(_history_text(history))
        while size > HISTORY_SIZE_MAX:
            size -= len(_history_text([history.pop(0)]))
        return Last(
            commit.number,
            self.broker_epoch + broker_epochs,
            self.controller_epoch + controller_epochs,
            tuple(history),
        )

    def changed_since(self, number: int) -> set[str] | None:
        """Return the keys that commits after `number` put or deleted; None: that is not known."""
        if number == self.number:
            return set()
        if not self.history or not self.history[0].number - 1 <= number < self.number:
            return None
        keys: set[str] = set()
        for commit in self.history:
            if commit.number > number:
                if commit.keys is None:
                    return None
                keys.update(commit.keys)
        return keys

    def follows(self, earlier: Last) -> bool | None:
        """Whether these commits come after those of `earlier`; None: the history has gone on too
        far to tell.
        """
        if self.number < earlier.number or not earlier.history:
            return self.number >= earlier.number
        before = earlier.history[-1]
        return next((commit.id == before.id for commit in self.history if commit.number == before.number), None)

    def number_of(self, id: str) -> int | None:
        """Return the number of the commit with this id; None: the history does not have it."""
        return next((commit.number for commit in reversed(self.history) if commit.id == id), None)

    def to_bytes(self) -> bytes:
        """Return the node's data."""
        values = {"format": FORMAT, **self._asdict()}
        return json.dumps(values, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes, path: str) -> Last:
        """Read the node's data. Raises: StorageFailed: it is damaged, or of another format."""
        try:
            values = json.loads(data)
            version = values.pop("format")
            if version == FORMAT:
                history = tuple(
                    Commit(int(number), str(id), None if keys is None else tuple(map(str, keys)))
                    for number, id, keys in values.pop("history")
                )
                return cls(**{name: int(value) for name, value in values.items()}, history=history)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StorageFailed(
                f"ZooKeeper's node {path} is damaged ({error}): expected what kqueue wrote; use another chroot, or "
                "restore ZooKeeper's data"
            ) from error
        raise StorageFailed(
            f"ZooKeeper's node {path}: expected format {FORMAT}, found {version}; a newer kqueue wrote it"
        )


def _history_text(history: Iterable[Commit]) -> str:
    return json.dumps(list(history), separators=(",", ":"))


# --- values


class Payload(NamedTuple):
    """A value as it is stored: `sign` and the bytes behind it."""

    sign: bytes
    content: bytes

    def to_bytes(self, number: int) -> bytes:
        """Return the node's data, for the commit of this number."""
        return b"%d%b%b" % (number, self.sign, self.content)

    @classmethod
    def of(cls, value: bytes) -> Payload:
        """Return the payload of a value, compressed where that is shorter."""
        if len(value) >= _COMPRESSED_FROM:
            compressed = zlib.compress(value, 1)
            if len(compressed) < len(value):
                return cls(_COMPRESSED, compressed)
        return cls(_PLAIN, value)

    @classmethod
    def in_parts(cls, payload: Payload, name: str) -> tuple[Payload, dict[str, bytes]]:
        """Return the payload that names the parts of another one, and the parts by name."""
        content = payload.content
        pieces = [content[at : at + PART_SIZE] for at in range(0, len(content), PART_SIZE)]
        names = part_names(name, len(pieces))
        described = b"%b%b %d" % (payload.sign, name.encode(), len(pieces))
        return cls(_IN_PARTS, described), dict(zip(names, pieces, strict=True))


def part_names(name: str, count: int) -> list[str]:
    """Return the names of a value's parts, in order."""
    return [f"{name}-{number}" for number in range(count)]


class StoredValue(NamedTuple):
    """A data node's data, read. `parts`: the names of its parts, whose content follows `sign`."""

    number: int
    sign: bytes
    content: bytes
    parts: tuple[str, ...] = ()

    @classmethod
    def from_bytes(cls, data: bytes, path: str) -> StoredValue:
        """Read a node's data. Raises: StorageFailed: it is damaged."""
        end = next(_sign_positions(data), -1)
        if end <= 0 or not data[:end].isdigit():
            raise _damaged(path, "it does not begin with a number and a sign")
        number, sign, content = int(data[:end]), data[end : end + 1], data[end + 1 :]
        if sign != _IN_PARTS:
            return cls(number, sign, content)
        name, _, count = content[1:].decode("ascii", "replace").rpartition(" ")
        if content[:1] not in (_PLAIN, _COMPRESSED) or not name or not count.isdecimal() or int(count) > PARTS_MAX:
            raise _damaged(path, "it does not name its parts")
        return cls(number, content[:1], b"", tuple(part_names(name, int(count))))

    def value(self, path: str) -> bytes:
        """Return the value, once `content` is whole. Raises: StorageFailed: it is damaged."""
        if self.sign == _PLAIN:
            value = self.content
        else:
            inflate = zlib.decompressobj()
            try:
                value = inflate.decompress(self.content, VALUE_SIZE_MAX + 1)
            except zlib.error as error:
                raise _damaged(path, str(error)) from error
            if not inflate.eof and len(value) <= VALUE_SIZE_MAX:
                raise _damaged(path, "its compressed value is cut off")
        if len(value) > VALUE_SIZE_MAX:
            raise _damaged(path, f"its value has more than {VALUE_SIZE_MAX} bytes")
        return value


def _sign_positions(data: bytes) -> Iterator[int]:
    """The positions of signs among the bytes that a number may have."""
    for at, byte in enumerate(data[: _NUMBER_LENGTH_MAX + 1]):
        if byte in b"=~@":
            yield at


def _damaged(path: str, reason: str) -> StorageFailed:
    return StorageFailed(f"ZooKeeper's node {path} is damaged: {reason}; nothing but kqueue may write below it")
