"""The checker has to find what is wrong with a metadata store."""

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

Guards = Mapping[str, int | None]


def memory(folder: str) -> MetadataStore:
    return MemoryStore()


def test_a_store_that_forgets_is_none_that_is_durable() -> None:
    with pytest.raises(AssertionError, match="never has a version twice"):
        check_metadata_store(memory, isolated=False)


class Broken(MemoryStore):
    """Sound in itself; what is broken below gets at its parts."""

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
    """Keeps no byte above 127."""

    def commit(self, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str]) -> Any:
        return super().commit(guards, {key: bytes(value).replace(b"\xff", b"") for key, value in puts.items()}, deletes)


class Raising(Broken):
    def commit(self, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str]) -> Any:
        if len(puts) > 2:
            raise OverflowError("too many")
        return super().commit(guards, puts, deletes)


class Lending(Broken):
    """Keeps the caller's own bytearray."""

    def read(self, prefix: str) -> Snapshot:
        return {key: Entry(bytes(value), version) for key, (value, version) in super().read(prefix).items()}

    def commit(self, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str]) -> Any:
        versions = super().commit(guards, puts, deletes)
        self.entries().update({key: Entry(value, versions[key]) for key, value in puts.items()})
        return versions


class TwiceOver(Broken):
    """Needs its deletes more than once."""

    def commit(self, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str]) -> Any:
        list(deletes)
        return super().commit(guards, puts, deletes)


class Unordered(Broken):
    def read(self, prefix: str) -> Snapshot:
        return dict(reversed(super().read(prefix).items()))


class Folders(Broken):
    """Takes a prefix for a folder."""

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
    """Looks at the guards of what it changes alone."""

    def commit(self, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str]) -> Any:
        deletes = list(deletes)
        return super().commit(
            {key: guard for key, guard in guards.items() if key in puts or key in deletes}, puts, deletes
        )


class HalfDone(Broken):
    """Deletes before it looks at the guards."""

    def commit(self, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str]) -> Any:
        deletes = list(deletes)
        seen = {key: entry.version for key, entry in self.read("/").items()}
        super().commit({}, {}, deletes)
        if any(seen.get(key) != guard for key, guard in guards.items()):
            raise Conflict("half of it is done")
        return super().commit({}, puts, [])


class OtherError(Broken):
    def commit(self, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str]) -> Any:
        try:
            return super().commit(guards, puts, deletes)
        except Conflict as error:
            raise RuntimeError("no") from error


class PerKey(Broken):
    """Counts versions per key, from 1 on."""

    def commit(self, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str]) -> Any:
        before = {key: entry.version for key, entry in self.read("/").items()}
        versions = {key: before.get(key, 0) + 1 for key in puts}
        super().commit(guards, puts, deletes)
        self.entries().update({key: Entry(bytes(value), versions[key]) for key, value in puts.items()})
        return versions


class Generous(Broken):
    """Knows no limit of a value's size."""

    def commit(self, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str]) -> Any:
        return super().commit(guards, {key: value[: 1 << 20] for key, value in puts.items()}, deletes)


class Stingy(Broken):
    """Takes no key of more than 255 characters."""

    def commit(self, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str]) -> Any:
        if any(len(key) > 255 for key in puts):
            raise ValueError("too long")
        return super().commit(guards, puts, deletes)


class Live(Broken):
    """Its snapshots go on."""

    def read(self, prefix: str) -> Snapshot:
        return self.entries() if prefix == "/" and len(self.entries()) == 1 else super().read(prefix)


class Racing(Broken):
    """Lets others in between its guards and its puts."""

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
    """Writes down what was committed when it is closed."""

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
    (lambda folder: Listing(), "what was committed is read back", "gave list, expected a mapping"),
    (lambda folder: Tuples(), "what was committed is read back", "expected an Entry"),
    (
        lambda folder: Arrays(),
        "what was committed is read back",
        "gave a bytearray as value of /topics/b, expected bytes",
    ),
    (lambda folder: Silent(), "what was committed is read back", "gave NoneType, expected a mapping of versions"),
    (
        lambda folder: Guessing(),
        "what was committed is read back",
        r"read\('/topics/b'\) after another put gave .*version=2",
    ),
    (lambda folder: Losing(), "what was committed is read back", "values after a commit gave"),
    (
        lambda folder: Raising(),
        "what was committed is read back",
        r"commit\(guards=\{\}, puts=.* raised OverflowError: too many",
    ),
    (lambda folder: Lending(), "what was committed is read back", "once the caller has changed the bytearray"),
    (lambda folder: TwiceOver(), "what was committed is read back", "given as an iterator, gave"),
    (lambda folder: Unordered(), "a prefix finds all keys", r"keys of read\(''\), in order, gave"),
    (lambda folder: Folders(), "a prefix finds all keys", r"keys of read\('/a'\), in order, gave"),
    (lambda folder: CaseBlind(), "a prefix finds all keys", r"keys of read\('/a'\), in order, gave"),
    (
        lambda folder: Unguarded(),
        "whose guards do not hold",
        r"commit\(guards=\{'/a': None\}.*\) gave .*, expected Conflict",
    ),
    (lambda folder: HalfGuarded(), "whose guards do not hold", "expected Conflict"),
    (lambda folder: HalfDone(), "whose guards do not hold", "after a Conflict of the guards"),
    (lambda folder: OtherError(), "whose guards do not hold", r"raised RuntimeError\('no'\), expected Conflict"),
    (lambda folder: PerKey(), "a key never has a version twice", r"had these versions in turn: \[1, 2, 3, 1\]"),
    (lambda folder: Generous(), "what breaks the limits", "puts=.*'1048577 bytes'.* gave .*, expected ValueError"),
    (lambda folder: Stingy(), "what breaks the limits", "raised ValueError: too long"),
    (lambda folder: Live(), "a snapshot stays as it was read", "after a later commit, gave"),
    (
        lambda folder: Racing(),
        "several threads may use it at once",
        "half of a commit|that four threads raised ten times each",
    ),
    (
        lambda folder: Reopening(),
        "a closed store raises StorageFailed",
        r"read\('/'\) of a closed store gave \{\}, expected StorageFailed",
    ),
    (lambda folder: OnceOnly(), "closing twice is harmless", r"close\(\) raised RuntimeError: it is closed already"),
]


@pytest.mark.parametrize(("make", "promise", "words"), BROKEN, ids=[words for _, _, words in BROKEN])
def test_what_is_broken_is_named(make: Callable[[str], MetadataStore], promise: str, words: str) -> None:
    with pytest.raises(
        AssertionError, match=f'(?s)^metadata store .* does not keep its promise ".*{promise}.*": .*{words}'
    ):
        check_metadata_store(make, durable=False, isolated=False)


def test_what_is_written_down_at_the_end_alone_is_found() -> None:
    with pytest.raises(AssertionError, match="copy of the store's files, taken when commit had returned, gave "):
        check_metadata_store(InMemoryFirst, isolated=False)
