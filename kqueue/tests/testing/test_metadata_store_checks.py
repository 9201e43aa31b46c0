"""`check_metadata_store` reports each violation of the store contract."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kqueue.base.errors import Conflict
from kqueue.metadata.memory import MemoryStore
from kqueue.metadata.sqlite import SqliteStore
from kqueue.metadata.store import Entry, MetadataStore, Snapshot, check_commit
from kqueue.testing import check_metadata_store
from kqueue.tests.tables import for_each

Guards = Mapping[str, int | None]


def memory(folder: str) -> MetadataStore:
    return MemoryStore()


def test_a_store_that_is_not_durable_is_reported() -> None:
    with pytest.raises(AssertionError, match="versions of a key are never reused"):
        check_metadata_store(memory, isolated=False)


class Broken(MemoryStore):
    """A valid store; subclasses break one rule each through its internals."""

    def entries(self) -> dict[str, Entry]:
        return self._entries

    def counted(self) -> int:
        self._last_version += 1
        return self._last_version


class Listing(Broken):
    def read(self, prefix: str) -> Any:
        return list(super().read(prefix).items())


class Tuples(Broken):
    def read(self, prefix: str) -> Any:
        return {key: tuple(entry) for key, entry in super().read(prefix).items()}


class Arrays(Broken):
    def read(self, prefix: str) -> Any:
        return {key: Entry(bytearray(value), version) for key, (value, version) in super().read(prefix).items()}  # type: ignore[arg-type]


class Silent(Broken):
    def commit(self, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str]) -> Any:
        super().commit(guards, puts, deletes)


class Guessing(Broken):
    def commit(self, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str]) -> Any:
        return dict.fromkeys(super().commit(guards, puts, deletes), 1)


class Losing(Broken):
    """Drops the byte 255 from values."""

    def commit(self, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str]) -> Any:
        return super().commit(guards, {key: bytes(value).replace(b"\xff", b"") for key, value in puts.items()}, deletes)


class Raising(Broken):
    def commit(self, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str]) -> Any:
        if len(puts) > 2:
            raise OverflowError("too many")
        return super().commit(guards, puts, deletes)


class Lending(Broken):
    """Stores the caller's bytearray without a copy."""

    def read(self, prefix: str) -> Snapshot:
        return {key: Entry(bytes(value), version) for key, (value, version) in super().read(prefix).items()}

    def commit(self, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str]) -> Any:
        versions = super().commit(guards, puts, deletes)
        self.entries().update({key: Entry(value, versions[key]) for key, value in puts.items()})
        return versions


class TwiceOver(Broken):
    """Iterates over the deletes twice."""

    def commit(self, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str]) -> Any:
        list(deletes)
        return super().commit(guards, puts, deletes)


class Unordered(Broken):
    def read(self, prefix: str) -> Snapshot:
        return dict(reversed(super().read(prefix).items()))


class Folders(Broken):
    """Treats a prefix as a folder."""

    def read(self, prefix: str) -> Snapshot:
        return {
            key: entry
            for key, entry in super().read(prefix).items()
            if key == prefix or key.startswith(prefix.rstrip("/") + "/")
        }


class CaseBlind(Broken):
    def read(self, prefix: str) -> Snapshot:
        return {key: entry for key, entry in super().read("").items() if key.lower().startswith(prefix.lower())}


class Unguarded(Broken):
    def commit(self, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str]) -> Any:
        return super().commit({}, puts, deletes)


class HalfGuarded(Broken):
    """Checks only guards of keys that it changes."""

    def commit(self, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str]) -> Any:
        deletes = list(deletes)
        return super().commit(
            {key: guard for key, guard in guards.items() if key in puts or key in deletes}, puts, deletes
        )


class HalfDone(Broken):
    """Deletes before it checks the guards."""

    def commit(self, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str]) -> Any:
        deletes = list(deletes)
        seen = {key: entry.version for key, entry in self.read("/").items()}
        super().commit({}, {}, deletes)
        if any(seen.get(key) != guard for key, guard in guards.items()):
            raise Conflict("the deletes were executed")
        return super().commit({}, puts, [])


class OtherError(Broken):
    def commit(self, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str]) -> Any:
        try:
            return super().commit(guards, puts, deletes)
        except Conflict as error:
            raise RuntimeError("no") from error


class PerKey(Broken):
    """Counts versions per key from 1."""

    def commit(self, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str]) -> Any:
        before = {key: entry.version for key, entry in self.read("/").items()}
        versions = {key: before.get(key, 0) + 1 for key in puts}
        super().commit(guards, puts, deletes)
        self.entries().update({key: Entry(bytes(value), versions[key]) for key, value in puts.items()})
        return versions


class Generous(Broken):
    """Accepts values of any size."""

    def commit(self, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str]) -> Any:
        return super().commit(guards, {key: value[: 1 << 20] for key, value in puts.items()}, deletes)


class Stingy(Broken):
    """Rejects keys of more than 255 characters."""

    def commit(self, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str]) -> Any:
        if any(len(key) > 255 for key in puts):
            raise ValueError("too long")
        return super().commit(guards, puts, deletes)


class Live(Broken):
    """Returns live snapshots."""

    def read(self, prefix: str) -> Snapshot:
        return self.entries() if prefix == "/" and len(self.entries()) == 1 else super().read(prefix)


class Racing(Broken):
    """Checks guards and writes puts in separate commits."""

    def commit(self, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str]) -> Any:
        deletes = list(deletes)
        check_commit(guards, puts, deletes)
        versions = {}
        super().commit(guards, {}, deletes)
        for key, value in puts.items():
            threading.Event().wait(0.0001)
            versions |= super().commit({}, {key: value}, [])
        return versions


class Reopening(Broken):
    def close(self) -> None:
        self.entries().clear()


class OnceOnly(Broken):
    def close(self) -> None:
        if self._closed:
            raise RuntimeError("it is closed already")
        super().close()


class InMemoryFirst(SqliteStore):
    """Writes committed entries to the file only on close."""

    def __init__(self, folder: str) -> None:
        super().__init__(":memory:")
        self._file: Path | None = Path(folder, "store.db")
        if self._file.exists():
            with closing(sqlite3.connect(self._file)) as db:
                db.backup(self._db)

    def close(self) -> None:
        if self._file is not None:
            with closing(sqlite3.connect(self._file)) as db:
                self._db.backup(db)
            self._file = None
        super().close()


BROKEN: list[tuple[Callable[[str], MetadataStore], str, str]] = [
    (lambda folder: Listing(), "committed entries are read back", "gave list, expected a mapping"),
    (lambda folder: Tuples(), "committed entries are read back", "expected an Entry"),
    (
        lambda folder: Arrays(),
        "committed entries are read back",
        "gave a bytearray as value of /topics/b, expected bytes",
    ),
    (lambda folder: Silent(), "committed entries are read back", "gave NoneType, expected a mapping of versions"),
    (
        lambda folder: Guessing(),
        "committed entries are read back",
        r"read\('/topics/b'\) after another put gave .*version=2",
    ),
    (lambda folder: Losing(), "committed entries are read back", "values after a commit gave"),
    (
        lambda folder: Raising(),
        "committed entries are read back",
        r"commit\(guards=\{\}, puts=.* raised OverflowError: too many",
    ),
    (lambda folder: Lending(), "committed entries are read back", "after the caller changed the bytearray"),
    (lambda folder: TwiceOver(), "committed entries are read back", "given as an iterator, gave"),
    (lambda folder: Unordered(), "read returns all keys with the prefix", r"keys of read\(''\), in order, gave"),
    (lambda folder: Folders(), "read returns all keys with the prefix", r"keys of read\('/a'\), in order, gave"),
    (lambda folder: CaseBlind(), "read returns all keys with the prefix", r"keys of read\('/a'\), in order, gave"),
    (
        lambda folder: Unguarded(),
        "whose guards do not hold",
        r"commit\(guards=\{'/a': None\}.*\) gave .*, expected Conflict",
    ),
    (lambda folder: HalfGuarded(), "whose guards do not hold", "expected Conflict"),
    (lambda folder: HalfDone(), "whose guards do not hold", "after a Conflict of the guards"),
    (lambda folder: OtherError(), "whose guards do not hold", r"raised RuntimeError\('no'\), expected Conflict"),
    (
        lambda folder: PerKey(),
        "versions of a key are never reused",
        r"expected distinct versions, found in this order: \[1, 2, 3, 1\]",
    ),
    (lambda folder: Generous(), "a commit beyond the limits", "puts=.*'1048577 bytes'.* gave .*, expected ValueError"),
    (lambda folder: Stingy(), "a commit beyond the limits", "raised ValueError: too long"),
    (lambda folder: Live(), "a snapshot does not change", "after a later commit, gave"),
    (
        lambda folder: Racing(),
        "several threads may use it at the same time",
        "a part of a commit|that four threads incremented ten times each",
    ),
    (
        lambda folder: Reopening(),
        "a closed store raises StorageFailed",
        r"read\('/'\) of a closed store gave \{\}, expected StorageFailed",
    ),
    (lambda folder: OnceOnly(), "closing twice is harmless", r"close\(\) raised RuntimeError: it is closed already"),
]


@for_each("make, sentence, words", BROKEN)
def test_violations_are_reported(make: Callable[[str], MetadataStore], sentence: str, words: str) -> None:
    with pytest.raises(AssertionError, match=f'(?s)^metadata store .* fails the check ".*{sentence}.*": .*{words}'):
        check_metadata_store(make, durable=False, isolated=False)


def test_writing_only_on_close_is_reported() -> None:
    with pytest.raises(AssertionError, match="copy of the store's files, made after commit returned, gave "):
        check_metadata_store(InMemoryFirst, isolated=False)
