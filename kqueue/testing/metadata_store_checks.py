"""Public contract checks for metadata stores, to be run in the tests of a store plugin."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from kqueue.base.errors import Conflict, StorageFailed
from kqueue.metadata.store import KEY_LENGTH_MAX, VALUE_SIZE_MAX, Entry, MetadataStore, Snapshot
from kqueue.testing.contract_checks import Check, Checks, ContractTrial, raises, same
from kqueue.testing.isolation import check_contract

_Guards = Mapping[str, int | None]
_Make = Callable[[str], MetadataStore]
_NAMES = ("/a", "/a/b", "/ab", "/A", "/a%", "/a_", "/a\uffff", "/a\U0010ffff", "/é", "/b")


def check_metadata_store(
    make: _Make | str, *, durable: bool = True, time_limit_s: float = 60, isolated: bool = True
) -> None:
    """Check that a metadata store meets the contract in `kqueue.metadata.store`.

    Power cuts are not simulated.

    Args:
        make: opens the store in a folder, given its path; the registered object, or its
            ``module:object`` path. Each check calls it with a new, empty folder, which is deleted
            afterwards.
        durable: check that a reopened store has all committed entries. If the store keeps files in
            its folder, a copy of them taken after a commit must have all entries too.
        time_limit_s: limit for all checks together, in seconds.
        isolated: False runs the checks in this process, without a time limit, for objects that
            cannot be pickled.
    Raises:
        AssertionError: a check failed; the message names the check, the call and the result.
        TypeError: `make` cannot be sent to another process.
    """
    check_contract(METADATA_STORE_CHECKS, make, {"durable": durable}, time_limit_s=time_limit_s, isolated=isolated)


class _StoreProbe:
    """Reports each call of a store to the trial, and checks the types of the results."""

    def __init__(self, trial: ContractTrial[_Make], folder: str) -> None:
        self._trial = trial
        self.store = trial.ask(f"opening a store in {folder}", lambda: trial.plugin(folder))

    def read(self, prefix: str) -> Snapshot:
        what = f"read({prefix!r:.60})"
        entries = self._trial.ask(what, lambda: self.store.read(prefix))
        assert isinstance(entries, Mapping), f"{what} gave {type(entries).__name__}, expected a mapping"
        for key, entry in entries.items():
            assert isinstance(key, str), f"{what} gave the key {key!r}, expected text"
            assert isinstance(entry, Entry), f"{what} gave {entry!r:.100} for {key}, expected an Entry"
            assert type(entry.value) is bytes, (
                f"{what} gave a {type(entry.value).__name__} as value of {key}, expected bytes"
            )
            assert type(entry.version) is int, f"{what} gave {entry.version!r} as version of {key}, expected an int"
        return entries

    def commit(
        self, puts: Mapping[str, bytes] | None = None, deletes: Iterable[str] = (), guards: _Guards | None = None
    ) -> Mapping[str, int]:
        what = _commit(guards or {}, puts or {}, deletes)
        versions = self._trial.ask(what, lambda: self.store.commit(guards or {}, puts or {}, deletes))
        assert isinstance(versions, Mapping), f"{what} gave {type(versions).__name__}, expected a mapping of versions"
        assert set(versions) == set(puts or {}), (
            f"{what} gave versions of {sorted(versions)}, expected one for each put"
        )
        for key, version in versions.items():
            assert type(version) is int, f"{what} gave {version!r} as version of {key}, expected an int"
            assert version >= 1, f"{what} gave {version} as version of {key}, expected 1 or more"
        return versions

    def values(self, prefix: str = "/") -> dict[str, bytes]:
        return {key: entry.value for key, entry in self.read(prefix).items()}

    def close(self) -> None:
        self._trial.ask("close()", self.store.close)


def _commit(guards: Mapping[str, object], puts: Mapping[str, bytes], deletes: Iterable[str]) -> str:
    put = {key: value if len(value) < 20 else f"{len(value)} bytes" for key, value in puts.items()}
    return f"commit(guards={guards!r:.100}, puts={put!r:.100}, deletes={deletes!r:.100})"


@contextmanager
def _opened(trial: ContractTrial[_Make], folder: str | None = None) -> Iterator[_StoreProbe]:
    with closing(_StoreProbe(trial, folder or trial.folder)) as asked:
        yield asked


def _check_round_trip(trial: ContractTrial[_Make]) -> None:
    with _opened(trial) as store:
        same("read('/') of a new store", dict(store.read("/")), {})
        versions = store.commit({"/topics/b": b"2", "/topics/a": bytes(range(256)), "/other": b""})
        same("read('/topics/b')", dict(store.read("/topics/b")), {"/topics/b": Entry(b"2", versions["/topics/b"])})
        same(
            "read('/')",
            dict(store.read("/")),
            {key: Entry(store.values()[key], version) for key, version in versions.items()},
        )
        same(
            "values after a commit", store.values(), {"/topics/b": b"2", "/topics/a": bytes(range(256)), "/other": b""}
        )
        newer = store.commit({"/topics/b": b"new"}, iter(["/other", "/never-there"]))["/topics/b"]
        same("read('/topics/b') after another put", dict(store.read("/topics/b")), {"/topics/b": Entry(b"new", newer)})
        expected = {"/topics/a": bytes(range(256)), "/topics/b": b"new"}
        same("values after another put and a delete, given as an iterator,", store.values(), expected)
        same("commit of deletes alone", dict(store.commit({}, ["/topics/a"])), {})
        value: Any = bytearray(b"abc")
        store.commit({"/mine": value})
        value[:] = b"xyz"
        same("value, after the caller changed the bytearray that was put,", store.values()["/mine"], b"abc")


def _check_prefixes(trial: ContractTrial[_Make]) -> None:
    with _opened(trial) as store:
        store.commit({key: key.encode() for key in _NAMES})
        store.commit({f"/many/{number}": b"" for number in range(1000)})
        for prefix in ("", "/", *_NAMES, "/a\ufffe", "/many/", "/many/99", "/absent", "a"):
            expected = [
                key
                for key in sorted([*_NAMES, *(f"/many/{number}" for number in range(1000))])
                if key.startswith(prefix)
            ]
            same(f"keys of read({prefix!r}), in order,", list(store.read(prefix)), expected)


def _check_guards(trial: ContractTrial[_Make]) -> None:
    with _opened(trial) as store:
        first = store.commit({"/a": b"1"}, guards={"/a": None})["/a"]
        second = store.commit({"/a": b"2"}, guards={"/a": first})["/a"]
        term = store.commit({"/term": b"7"}, guards={"/a": second, "/absent": None})["/term"]
        before = dict(store.read("/"))
        broken: tuple[_Guards, ...] = (
            {"/a": None},
            {"/a": first},
            {"/a": second + 1000},
            {"/absent": second},
            {"/a": second, "/term": term + 1},
        )
        for guards in broken:
            for puts, deletes in (({"/a": b"3", "/new": b"x"}, ["/term"]), ({}, ["/a"]), ({"/other": b""}, [])):
                _check_rejected(trial, store, Conflict, guards, puts, deletes)
                same(f"read('/') after a Conflict of the guards {guards}", dict(store.read("/")), before)
        store.commit({}, ["/a"], guards={"/a": second, "/term": term})
        same("values after a guarded delete", store.values(), {"/term": b"7"})


def _check_rejected(
    trial: ContractTrial[_Make],
    store: _StoreProbe,
    kind: type[Exception],
    guards: _Guards,
    puts: Mapping[str, bytes],
    deletes: Iterable[str],
) -> None:
    what = _commit(guards, puts, deletes)
    trial.ask(what, lambda: raises(kind, what, lambda: store.store.commit(guards, puts, deletes)))


def _check_versions(trial: ContractTrial[_Make]) -> None:
    seen: list[int] = []
    for _ in range(2 if trial.options["durable"] else 1):
        with _opened(trial) as store:
            seen += [store.commit({"/a": value, "/b": b""})["/a"] for value in (b"1", b"1", b"2")]
            store.commit({}, ["/a"])
            store.commit({"/b": b""})
            seen.append(store.commit({"/a": b"1"})["/a"])
            store.commit({}, ["/a"])
            same("read('/a') after a delete", dict(store.read("/a")), {})
    assert len(set(seen)) == len(seen), (
        f"/a was put, deleted and put again; expected distinct versions, found in this order: {seen}"
    )


def _check_limits(trial: ContractTrial[_Make]) -> None:
    key = "/" + "k" * (KEY_LENGTH_MAX - 1)
    with _opened(trial) as store:
        store.commit({key: bytes(VALUE_SIZE_MAX), "/" + "é" * (KEY_LENGTH_MAX - 1): b""})
        same("size of the longest value under the longest key", len(store.values()[key]), VALUE_SIZE_MAX)
        before = sorted(store.read("/"))
        for bad in ("", "a", key + "k", "/a\0b"):
            _check_rejected(trial, store, ValueError, {bad: None}, {"/fine": b""}, [])
            _check_rejected(trial, store, ValueError, {}, {"/fine": b"", bad: b""}, [])
            _check_rejected(trial, store, ValueError, {}, {"/fine": b""}, [bad])
        _check_rejected(trial, store, ValueError, {}, {"/fine": b"", "/a": bytes(VALUE_SIZE_MAX + 1)}, [])
        _check_rejected(trial, store, ValueError, {}, {"/fine": b"", "/a": b""}, ["/a"])
        same("keys after rejected commits", sorted(store.read("/")), before)


def _check_snapshots(trial: ContractTrial[_Make]) -> None:
    with _opened(trial) as store:
        store.commit({"/a": b"1"})
        before = store.read("/")
        copy = dict(before)
        store.commit({"/a": b"2", "/b": b"2"})
        same("a snapshot, after a later commit,", dict(before), copy)


def _check_threads(trial: ContractTrial[_Make]) -> None:
    with _opened(trial) as asked:
        asked.commit({"/n": b"0", "/m": b"0"})
        store = asked.store
        with ThreadPoolExecutor(6) as pool:
            counting = [pool.submit(_count, store) for _ in range(4)]
            reading = [pool.submit(_check_atomic_reads, store) for _ in range(2)]
            trial.ask("read and commit in six threads", lambda: [one.result() for one in (*counting, *reading)])
        same("a counter that four threads incremented ten times each with guards", asked.values()["/n"], b"40")


def _count(store: MetadataStore) -> None:
    for _ in range(10):
        while True:
            entry = store.read("/n")["/n"]
            value = b"%d" % (int(entry.value) + 1)
            try:
                store.commit({"/n": entry.version}, {"/n": value, "/m": value}, [])
            except Conflict:
                continue
            break


def _check_atomic_reads(store: MetadataStore) -> None:
    for _ in range(30):
        values = {key: entry.value for key, entry in store.read("/").items()}
        assert values["/n"] == values["/m"], (
            f"read('/') gave {values}, a part of a commit that puts one value under both keys"
        )


def _check_closing(trial: ContractTrial[_Make]) -> None:
    store = _StoreProbe(trial, trial.folder)
    store.commit({"/a": b"1"})
    store.close()
    store.close()
    raises(StorageFailed, "read('/') of a closed store", lambda: store.store.read("/"))
    raises(StorageFailed, "commit to a closed store", lambda: store.store.commit({}, {"/b": b""}, []))


def _check_reopening(trial: ContractTrial[_Make]) -> None:
    if not trial.options["durable"]:
        return
    here, copy = Path(trial.folder, "here"), Path(trial.folder, "copy")
    here.mkdir()
    expected: dict[str, Any] = {}
    for number in range(3):
        with _opened(trial, str(here)) as store:
            same(f"read('/') of a store after opening it {number + 1} times", dict(store.read("/")), expected)
            store.commit({f"/{number}": b"%d" % number, "/again": b"%d" % number})
            store.commit({"/gone": b""})
            store.commit({}, ["/gone"])
            expected = dict(store.read("/"))
            if any(here.iterdir()):
                shutil.copytree(here, copy)
                with _opened(trial, str(copy)) as other:
                    same(
                        "read('/') of a copy of the store's files, made after commit returned,",
                        dict(other.read("/")),
                        expected,
                    )
                shutil.rmtree(copy)


METADATA_STORE_CHECKS = Checks(
    "metadata store",
    (
        Check("committed entries are read back", _check_round_trip),
        Check("read returns all keys with the prefix, in order", _check_prefixes),
        Check("a commit whose guards do not hold raises Conflict and changes nothing", _check_guards),
        Check("versions of a key are never reused", _check_versions),
        Check("a commit beyond the limits raises ValueError and changes nothing", _check_limits),
        Check("a snapshot does not change", _check_snapshots),
        Check("several threads may use it at the same time", _check_threads),
        Check("closing twice is harmless, and a closed store raises StorageFailed", _check_closing),
        Check("a reopened store has the committed entries", _check_reopening),
    ),
)
