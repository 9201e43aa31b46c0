"""Objects in the memory of this process: for tests, simulations and embedded clusters."""

from __future__ import annotations

import re
import threading
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kqueue.base.clock import Clock, SystemClock
from kqueue.tier.errors import ObjectChanged, ObjectNotFound, TierCorrupt, TierError
from kqueue.tier.stores.contract import (
    Buffer,
    Object,
    ObjectEntry,
    Version,
    check_key,
    check_prefix,
    check_range,
    joined,
)

PAGE_SIZE = 1000
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}(?:/[A-Za-z0-9._-]{1,100})*", re.ASCII)


class _Stored(NamedTuple):
    body: bytes
    version: int
    modified_ms: int


class _Objects:
    """The objects of one name, with their keys in order."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.by_key: dict[str, _Stored] = {}
        self.keys: list[str] = []
        self.last_version = 0

    def put(self, key: str, body: bytes, modified_ms: int) -> int:
        """Write an object; the caller holds `lock`."""
        if key not in self.by_key:
            insort(self.keys, key)
        self.last_version += 1
        self.by_key[key] = _Stored(body, self.last_version, modified_ms)
        return self.last_version

    def delete(self, key: str) -> None:
        """Delete an object, if there is one; the caller holds `lock`."""
        if self.by_key.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]


_stores: dict[str, _Objects] = {}
_stores_lock = threading.Lock()


def forget_objects(name: str) -> None:
    """Delete all objects of `memory://name`; stores that are open keep them."""
    with _stores_lock:
        _stores.pop(name, None)


class MemoryTierStore:
    """See `contract.TierStore`. Stores of one name have the same objects, in one process.

    Args:
        name: of letters, digits, ".", "_", "-" and "/". None: a store of its own.
        clock: of `modified_ms`.
    Raises: TierError: another name.
    Durability: none: the objects end with the process, or with `forget_objects`.
    """

    def __init__(self, name: str | None = None, clock: Clock | None = None) -> None:
        self._clock = SystemClock() if clock is None else clock
        self._is_closed = False
        if name is None:
            self._objects = _Objects()
        elif _NAME.fullmatch(name):
            with _stores_lock:
                self._objects = _stores.setdefault(name, _Objects())
        else:
            raise TierError(f"memory://{name[:100]}: expected a name of letters, digits, '.', '_' and '-'")
        self.location = f"memory://{name or ''}"

    def put(self, key: str, parts: Iterable[Buffer], size: int) -> None:
        check_key(key)
        self._check_open()
        body = joined(parts, size)
        with self._objects.lock:
            self._objects.put(key, body, self._clock.wall_ms())

    def put_if(self, key: str, body: bytes, expected: Version | None) -> Version:
        check_key(key)
        self._check_open()
        with self._objects.lock:
            present = self._objects.by_key.get(key)
            version = None if present is None else str(present.version)
            if version != expected:
                raise ObjectChanged(f"{self.location}/{key}: expected {_named(expected)}, found {_named(version)}")
            return str(self._objects.put(key, bytes(body), self._clock.wall_ms()))

    def get(self, key: str, *, max_bytes: int) -> Object:
        present = self._present(key)
        if len(present.body) > max_bytes:
            raise TierCorrupt(f"{self.location}/{key} has {len(present.body)} bytes, at most {max_bytes} were expected")
        return Object(present.body, str(present.version))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        check_range(start, length)
        present = self._present(key)
        if start + length > len(present.body):
            raise TierCorrupt(f"{self.location}/{key} has {len(present.body)} bytes, expected {length} from {start} on")
        return present.body[start : start + length]

    def list(self, prefix: str) -> Iterator[ObjectEntry]:
        prefix = check_prefix(prefix)
        self._check_open()
        return self._pages(prefix)

    def _pages(self, prefix: str) -> Iterator[ObjectEntry]:
        start = prefix
        while page := self._page(prefix, start):
            yield from page
            start = page[-1].key + "\0"

    def _page(self, prefix: str, start: str) -> Sequence[ObjectEntry]:
        self._check_open()
        objects = self._objects
        with objects.lock:
            first = bisect_left(objects.keys, start)
            keys = objects.keys[first : first + PAGE_SIZE]
            return [
                ObjectEntry(key, len(objects.by_key[key].body), objects.by_key[key].modified_ms)
                for key in keys
                if key.startswith(prefix)
            ]

    def list_folders(self, prefix: str) -> Sequence[str]:
        prefix = check_prefix(prefix)
        names: list[str] = []
        self._check_open()
        with self._objects.lock:
            keys = self._objects.keys
            at = bisect_left(keys, prefix)
            while at < len(keys) and keys[at].startswith(prefix):
                name, slash, _ = keys[at][len(prefix) :].partition("/")
                if slash:
                    names.append(name)
                    at = bisect_left(keys, f"{prefix}{name}0")  # "0" comes after "/"
                else:
                    at += 1
        return sorted(names)

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            check_key(key)
        self._check_open()
        with self._objects.lock:
            for key in keys:
                self._objects.delete(key)

    def close(self) -> None:
        self._is_closed = True

    def _present(self, key: str) -> _Stored:
        check_key(key)
        self._check_open()
        present = self._objects.by_key.get(key)
        if present is None:
            raise ObjectNotFound(f"{self.location}/{key} does not exist")
        return present

    def _check_open(self) -> None:
        if self._is_closed:
            raise TierError(f"{self.location} is closed")


def _named(version: Version | None) -> str:
    return "no object" if version is None else f"version {version}"
