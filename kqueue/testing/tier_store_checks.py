"""Public contract checks for the object stores of tiered storage, to be run in the tests of a store
plugin.
"""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kqueue.testing.cluster_store_probe import until
from kqueue.testing.contract_checks import Check, Checks, ContractTrial, raises, same
from kqueue.testing.isolation import check_contract
from kqueue.tier.errors import ObjectChanged, ObjectNotFound, TierCorrupt, TierError
from kqueue.tier.stores.contract import (
    KEY_LENGTH_MAX,
    PART_LENGTH_MAX,
    Buffer,
    Object,
    ObjectEntry,
    TierStore,
)

_Make = Callable[[str], TierStore]
_Trial = ContractTrial[_Make]
_BIG = 1 << 30
_THREADS = 8
_ROUNDS = 5
_KEYS = ("a-", "a-b", "a.b/x", "a/b/c", "a/b/d", "a/bc", "a0/x", "A/x", "_/-", "b")
_HOSTILE_KEYS = (
    "", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../../b", "a/./b", "a\\b", "a\0b", "a b", "a\nb", "a?b", "a#b",
    "a%2e%2e/b", "~temporary/a", "ä", "a" * (KEY_LENGTH_MAX + 1), "a" * (PART_LENGTH_MAX + 1),
)  # fmt: skip
_HOSTILE_PREFIXES = ("/", "..", "../", "a//", "/a", "a/../..", "a\0", "%2e%2e")


def check_tier_store(
    make: _Make | str,
    url: str,
    *,
    objects: int = 1100,
    big_bytes: int = 12 << 20,
    time_limit_s: float = 120,
    isolated: bool = True,
) -> None:
    """Check that a store meets the contract in `kqueue.tier.stores.contract`.

    Faults of networks and power cuts are not simulated.

    Args:
        make: opens the store of a URL; the registered object, or its ``module:object`` path. Each
            check calls it several times with one URL: all these stores have the same objects.
        url: a URL of which ``{folder}`` is replaced by the path of an empty folder of each check,
            and ``{name}`` by a name that no other check or run has. What a check puts there is
            deleted at its end.
        objects: how many objects are listed; above 1000 shows whether pages are followed.
        big_bytes: size of the largest object.
        time_limit_s: limit for all checks together, in seconds.
        isolated: False runs the checks in this process, without a time limit, for objects that
            cannot be pickled.
    Raises:
        AssertionError: a check failed; the message names the check, the call and the result.
        TypeError: `make` cannot be sent to another process.
        ValueError: the URL has neither ``{folder}`` nor ``{name}``.
    """
    if "{folder}" not in url and "{name}" not in url:
        raise ValueError(f"expected a URL with {{folder}} or {{name}}, found {url!r}: checks must not share objects")
    options = {"url": url, "objects": objects, "big_bytes": big_bytes}
    check_contract(TIER_STORE_CHECKS, make, options, time_limit_s=time_limit_s, isolated=isolated)


class _Probe:
    """A store whose calls are reported to the trial, and the types of their results checked."""

    def __init__(self, trial: _Trial, url: str) -> None:
        self._trial = trial
        self.store = trial.ask(f"opening a store at {url.partition('?')[0]}", lambda: trial.plugin(url))

    def put(self, key: str, *parts: Buffer) -> None:
        size = sum(map(len, parts))
        same(f"put({key!r}, {size} bytes)", self._ask("put", self.store.put, key, parts, size), None)

    def put_if(self, key: str, body: bytes, expected: str | None) -> str:
        version = self._ask("put_if", self.store.put_if, key, body, expected)
        assert isinstance(version, str), f"put_if({key!r}) gave {version!r}, expected a version, as text"
        assert version, f"put_if({key!r}) gave an empty text as version"
        return version

    def get(self, key: str, max_bytes: int = _BIG) -> Object:
        found = self._trial.ask(f"get({key!r})", lambda: self.store.get(key, max_bytes=max_bytes))
        assert isinstance(found, Object), f"get({key!r}) gave {type(found).__name__}, expected an Object"
        assert type(found.body) is bytes, f"get({key!r}) gave a {type(found.body).__name__} as body, expected bytes"
        assert isinstance(found.version, str), f"get({key!r}) gave {found.version!r} as version, expected text"
        return found

    def range(self, key: str, start: int, length: int) -> bytes:
        data = self._ask("get_range", self.store.get_range, key, start, length)
        assert type(data) is bytes, f"get_range({key!r}) gave a {type(data).__name__}, expected bytes"
        return data

    def entries(self, prefix: str = "") -> list[ObjectEntry]:
        entries = self._trial.ask(f"list({prefix!r})", lambda: list(self.store.list(prefix)))
        for entry in entries:
            assert isinstance(entry, ObjectEntry), f"list({prefix!r}) gave {entry!r:.100}, expected an ObjectEntry"
            assert type(entry.size) is int, f"list({prefix!r}) gave {entry.size!r} as size, expected an int"
            assert type(entry.modified_ms) is int, (
                f"list({prefix!r}) gave {entry.modified_ms!r} as time, expected milliseconds as an int"
            )
        return entries

    def keys(self, prefix: str = "") -> list[str]:
        return [entry.key for entry in self.entries(prefix)]

    def folders(self, prefix: str = "") -> list[str]:
        return list(self._ask("list_folders", self.store.list_folders, prefix))

    def delete(self, *keys: str) -> None:
        same(f"delete({keys!r:.100})", self._ask("delete", self.store.delete, keys), None)

    def close(self) -> None:
        self._trial.ask("close()", self.store.close)

    def refuses(self, kind: type[Exception], what: str, run: Callable[[], object]) -> None:
        self._trial.ask(what, lambda: raises(kind, what, run))

    def shows(self, prefix: str, keys: Sequence[str]) -> None:
        """Check a list, which may lag behind for a while."""
        if self.keys(prefix) != list(keys):
            until(f"list({prefix!r}) has the keys {keys!r:.100}", lambda: self.keys(prefix) == list(keys))

    def _ask(self, name: str, method: Callable[..., Any], first: Any, *args: Any) -> Any:
        shown = ", ".join(f"{one!r:.60}" for one in (first, *args))
        return self._trial.ask(f"{name}({shown})", lambda: method(first, *args))


@contextmanager
def _opened(trial: _Trial, count: int = 1) -> Iterator[list[_Probe]]:
    """Open stores of one URL, and delete their objects at the end of the block."""
    url = trial.options["url"].replace("{folder}", trial.folder).replace("{name}", uuid.uuid4().hex)
    probes = [_Probe(trial, url) for _ in range(count)]
    try:
        yield probes
        if keys := probes[0].keys():
            probes[0].delete(*keys)
    finally:
        for probe in probes:
            probe.close()


def _bytes(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def _check_round_trip(trial: _Trial) -> None:
    with _opened(trial) as (store,):
        same("type of location", type(store.store.location), str)
        contents: tuple[list[Buffer], ...] = (
            [],
            [b""],
            [b"abc"],
            [bytearray(b"ab"), memoryview(b"xcdx")[1:3], b"", b"e"],
            [bytes(range(256))],
        )
        for parts in contents:
            store.put("a/object", *parts)
            body = b"".join(parts)
            same("get, after a put of the parts", store.get("a/object").body, body)
            same("get with max_bytes of its size", store.get("a/object", len(body)).body, body)
        buffer = bytearray(b"mine")
        store.put("a/other", buffer)
        buffer[:] = b"else"
        same("get, after the caller changed the bytearray that was put,", store.get("a/other").body, b"mine")
        same("get of another object", store.get("a/object").body, bytes(range(256)))


def _check_big(trial: _Trial) -> None:
    size: int = trial.options["big_bytes"]
    body = _bytes(size)
    with _opened(trial) as (store,):
        parts = (body[start : start + 700_001] for start in range(0, size, 700_001))
        trial.ask(f"put of a generator of {size} bytes", lambda: store.store.put("big", parts, size))
        assert store.get("big").body == body, f"get gave other bytes than were put, in parts of an object of {size}"
        for start, length in ((0, 1), (size - 1, 1), (size // 2 - 5, size // 3), (0, size)):
            assert store.range("big", start, length) == body[start : start + length], (
                f"get_range({start}, {length}) gave other bytes than were put, of an object of {size}"
            )
        same("size in the list", [entry.size for entry in store.entries()], [size])
        store.put("big", b"small")
        same("get, after a smaller put", store.get("big").body, b"small")


def _check_failed_puts(trial: _Trial) -> None:
    with _opened(trial) as (store,):
        store.put("there", b"before")
        big: int = trial.options["big_bytes"]
        for key in ("there", "new"):
            for parts, size in (([b"abc"], 2), ([b"abc"], 4), ([b"a", b"bc"], 1), ([], 1), ([bytes(big)], big + 1)):
                what = f"put of {sum(map(len, parts))} bytes, where {size} were announced,"
                store.refuses(ValueError, what, lambda: store.store.put(key, iter(parts), size))  # noqa: B023
            for size in (10, big):
                what = f"put of {size} bytes, the parts of which raise KeyError after the first one,"
                store.refuses(KeyError, what, lambda: store.store.put(key, _failing(size), size))  # noqa: B023
        same("get of the object that was there", store.get("there").body, b"before")
        store.refuses(ObjectNotFound, "get after failed puts", lambda: store.store.get("new", max_bytes=_BIG))
        store.shows("", ["there"])


def _failing(size: int) -> Iterator[bytes]:
    yield bytes(size // 2)
    raise KeyError("the source of the object failed")


def _check_conditions(trial: _Trial) -> None:
    with _opened(trial) as (store,):
        put_if = store.store.put_if
        store.refuses(ObjectChanged, "put_if of a missing object, with a version,", lambda: put_if("m", b"0", "1"))
        first = store.put_if("m", b"1", None)
        same("get after put_if", store.get("m"), Object(b"1", first))
        store.refuses(ObjectChanged, "put_if(None) of an object that exists", lambda: put_if("m", b"2", None))
        second = store.put_if("m", b"2", first)
        assert second != first, f"put_if of other content gave the version {second!r} again"
        for stale in (first, "", "*", "other", f"{first},{second}"):
            store.refuses(ObjectChanged, "put_if with another version", lambda: put_if("m", b"3", stale))  # noqa: B023
        same("get after refused ones", store.get("m"), Object(b"2", second))
        store.put("m", b"plain")
        store.refuses(ObjectChanged, "put_if with the version before a put", lambda: put_if("m", b"3", second))
        version = store.get("m").version
        store.put_if("m", b"", version)
        same("get, after put_if with the version of a put,", store.get("m").body, b"")
        version = store.get("m").version
        store.delete("m")
        store.refuses(ObjectChanged, "put_if of a deleted object", lambda: put_if("m", b"3", version))
        store.put_if("m", b"4", None)
        store.put("plain", b"1")
        store.refuses(ObjectChanged, "put_if(None) after a put", lambda: put_if("plain", b"2", None))


def _check_rivals(trial: _Trial) -> None:
    with _opened(trial, 2) as probes:
        version: str | None = None
        for number in range(_ROUNDS):
            start = threading.Barrier(_THREADS)
            with ThreadPoolExecutor(_THREADS) as pool:
                puts = [
                    pool.submit(_rival, probes[one % 2].store, start, b"%d by %d" % (number, one), version)
                    for one in range(_THREADS)
                ]
                results = trial.ask(f"put_if in {_THREADS} threads", lambda: [one.result() for one in puts])  # noqa: B023
            won = [one for one, result in enumerate(results) if result is not None]
            assert len(won) == 1, (
                f"put_if of {_THREADS} threads with one version, on two stores: {len(won)} returned, expected one"
            )
            same("get, after put_if of several threads,", probes[0].get("m").body, b"%d by %d" % (number, won[0]))
            version = results[won[0]]
            same("version of get", probes[1].get("m").version, version)


def _rival(store: TierStore, start: threading.Barrier, body: bytes, expected: str | None) -> str | None:
    start.wait(30)
    try:
        return store.put_if("m", body, expected)
    except ObjectChanged:
        return None


def _check_counting(trial: _Trial) -> None:
    with _opened(trial, 2) as probes:
        probes[0].put_if("n", b"0", None)
        with ThreadPoolExecutor(4) as pool:
            counting = [pool.submit(_count, probes[one % 2].store) for one in range(4)]
            trial.ask("get and put_if in four threads", lambda: [one.result() for one in counting])
        same("a counter that four threads incremented five times each", probes[0].get("n").body, b"20")


def _count(store: TierStore) -> None:
    for _ in range(5):
        while True:
            body, version = store.get("n", max_bytes=10)
            try:
                store.put_if("n", b"%d" % (int(body) + 1), version)
            except ObjectChanged:
                continue
            break


def _check_whole_reads(trial: _Trial) -> None:
    size = 300_000
    with _opened(trial) as (store,):
        store.put("a", bytes(_size_of(0, size)))
        with ThreadPoolExecutor(3) as pool:
            writing = pool.submit(_rewrite, store.store, size)
            reading = [pool.submit(_read_whole, store.store, size) for _ in range(2)]
            trial.ask("get beside put in three threads", lambda: [one.result() for one in (writing, *reading)])


def _rewrite(store: TierStore, size: int) -> None:
    for number in [*range(20), *reversed(range(20))]:
        length = _size_of(number, size)
        store.put("a", [bytes([number]) * (length // 2), bytes([number]) * (length - length // 2)], length)


def _size_of(number: int, size: int) -> int:
    """Return the size of an object whose bytes all are `number`."""
    return size - 10_000 * number


def _read_whole(store: TierStore, size: int) -> None:
    for _ in range(40):
        body = store.get("a", max_bytes=size).body
        assert body, "get beside put gave no bytes"
        assert body == body[:1] * _size_of(body[0], size), (
            "get beside put gave a mixture of two objects, or a part of one"
        )


def _check_ranges(trial: _Trial) -> None:
    body = _bytes(1000)
    rng = random.Random(2)
    with _opened(trial) as (store,):
        store.put("a/object", body)
        store.put("empty")
        for _ in range(20):
            start = rng.randrange(1000)
            length = rng.randint(1, 1000 - start)
            what = f"get_range of an object of 1000 bytes, {length} from {start} on,"
            assert store.range("a/object", start, length) == body[start : start + length], f"{what} gave other bytes"
        get_range = store.store.get_range
        for key, start, length in (("a/object", 0, 1001), ("a/object", 999, 2), ("a/object", 1000, 1), ("empty", 0, 1)):
            what = f"get_range({key!r}, {start}, {length}), which ends behind the object,"
            store.refuses(TierCorrupt, what, lambda: get_range(key, start, length))  # noqa: B023
        store.refuses(TierCorrupt, "get_range far behind the object", lambda: get_range("a/object", 1 << 40, 5))
        store.refuses(ObjectNotFound, "get_range of a missing object", lambda: get_range("a/none", 0, 1))
        for start, length in ((-1, 5), (0, 0), (0, -1)):
            what = f"get_range(start={start}, length={length})"
            store.refuses(ValueError, what, lambda: get_range("a/object", start, length))  # noqa: B023


def _check_limits(trial: _Trial) -> None:
    with _opened(trial) as (store,):
        store.put("a", bytes(100))
        what = "get of 100 bytes with max_bytes=99"
        store.refuses(TierCorrupt, what, lambda: store.store.get("a", max_bytes=99))
        store.refuses(ObjectNotFound, "get of a missing object", lambda: store.store.get("b", max_bytes=99))
        longest = "k" * PART_LENGTH_MAX
        key = f"{longest}/{'x' * (KEY_LENGTH_MAX - PART_LENGTH_MAX - 3)}/y"
        store.put(key, b"1")
        store.put_if(f"{longest[1:]}/AZaz09._-", b"2", None)
        same("get of the longest key", store.get(key).body, b"1")
        store.shows("", ["a", f"{longest[1:]}/AZaz09._-", key])


def _check_lists(trial: _Trial) -> None:
    objects: int = trial.options["objects"]
    with _opened(trial, 2) as (store, other):
        same("list('') of a new store", store.entries(), [])
        same("list of a missing prefix", store.entries("a/missing"), [])
        for key in _KEYS:
            store.put(key, key.encode())
        store.shows("", sorted(_KEYS))
        other.shows("", sorted(_KEYS))
        for prefix in ("a/b", "a/b/", "a/", "a", "A", "a0", "_", "a.b", "b", "c", "a/b/c"):
            store.shows(prefix, sorted(key for key in _KEYS if key.startswith(prefix.rstrip("/") + "/")))
        sizes = {entry.key: entry.size for entry in store.entries()}
        same("sizes in list('')", sizes, {key: len(key) for key in _KEYS})
        keys = [f"many/{number:020}-{number}.segment" for number in range(objects)]
        with ThreadPoolExecutor(_THREADS) as pool:
            trial.ask(
                f"{objects} puts in {_THREADS} threads",
                lambda: list(
                    pool.map(lambda key: store.store.put(key, [b"1"], 1), random.Random(1).sample(keys, objects))
                ),
            )
        store.shows("many", keys)
        half = store.store.list("many")
        same("the first entry of a list that is not read to its end", next(half).key, keys[0])
        store.delete(*keys)
        store.shows("many", [])


def _check_folders(trial: _Trial) -> None:
    with _opened(trial) as (store,):
        same("list_folders('') of a new store", store.folders(), [])
        for key in _KEYS:
            store.put(key, b"1")
        for prefix, names in (
            ("", ["A", "_", "a", "a.b", "a0"]),
            ("a", ["b"]),
            ("a/", ["b"]),
            ("a/b", []),
            ("none", []),
        ):
            if store.folders(prefix) != names:
                until(f"list_folders({prefix!r}) gives {names}", lambda: store.folders(prefix) == names)  # noqa: B023
        store.delete("a/b/c", "a/b/d", "a0/x")
        until("list_folders('a') is empty, after all objects were deleted", lambda: store.folders("a") == [])
        until("list_folders('') has no a0", lambda: store.folders() == ["A", "_", "a", "a.b"])
        store.put("a/b/again", b"1")
        until("list_folders('a') has a folder again", lambda: store.folders("a") == ["b"])


def _check_deletes(trial: _Trial) -> None:
    with _opened(trial, 2) as (store, other):
        store.delete()
        store.delete("never/there")
        for key in ("x/a", "x/b", "x/c"):
            store.put(key, b"1")
        store.delete("x/a", "x/never-there", "x/c")
        for probe in (store, other):
            for key in ("x/a", "x/c"):
                what = f"get({key!r}) after a delete"
                probe.refuses(ObjectNotFound, what, lambda: probe.store.get(key, max_bytes=9))  # noqa: B023
            same("get of another object", probe.get("x/b").body, b"1")
        store.delete("x/a", "x/b")
        store.shows("", [])
        store.put("x/a", b"again")
        same("get after delete and put", other.get("x/a").body, b"again")


def _check_hostile(trial: _Trial) -> None:
    beside = Path(trial.folder)
    before = sorted(beside.parent.iterdir())
    with _opened(trial) as (store,):
        raw: Any = store.store
        store.put("a", b"1")
        for key in _HOSTILE_KEYS:
            calls: tuple[tuple[str, Callable[[], object]], ...] = (
                ("put", lambda: raw.put(key, [b"x"], 1)),  # noqa: B023
                ("put_if", lambda: raw.put_if(key, b"x", None)),  # noqa: B023
                ("get", lambda: raw.get(key, max_bytes=5)),  # noqa: B023
                ("get_range", lambda: raw.get_range(key, 0, 1)),  # noqa: B023
                ("delete", lambda: raw.delete(["a", key])),  # noqa: B023
            )
            for name, run in calls:
                store.refuses(ValueError, f"{name} with the key {key!r:.60}", run)
        for prefix in _HOSTILE_PREFIXES:
            store.refuses(ValueError, f"list({prefix!r})", lambda: list(raw.list(prefix)))  # noqa: B023
            store.refuses(ValueError, f"list_folders({prefix!r})", lambda: raw.list_folders(prefix))  # noqa: B023
        store.shows("", ["a"])
    same("files beside the folder of the store", sorted(beside.parent.iterdir()), before)


def _check_sharing(trial: _Trial) -> None:
    with _opened(trial, 3) as (one, two, three):
        version = three.put_if("m", b"1", None)
        same("get by another store of the URL", two.get("m"), Object(b"1", version))
        three.close()
        same("get, after the store that put it was closed,", two.get("m"), Object(b"1", version))
        one.put_if("m", b"2", two.get("m").version)
        same("get by another store, after put_if,", two.get("m").body, b"2")
        two.put("m", b"3")
        same("get by another store, after put,", one.get("m").body, b"3")


def _check_closing(trial: _Trial) -> None:
    with _opened(trial, 2) as (store, other):
        other.put("a", b"1")
        closed = other.store
        other.close()
        other.close()
        calls: tuple[tuple[str, Callable[[], object]], ...] = (
            ("put", lambda: closed.put("b", [b"1"], 1)),
            ("put_if", lambda: closed.put_if("b", b"1", None)),
            ("get", lambda: closed.get("a", max_bytes=9)),
            ("get_range", lambda: closed.get_range("a", 0, 1)),
            ("list", lambda: list(closed.list(""))),
            ("list_folders", lambda: closed.list_folders("")),
            ("delete", lambda: closed.delete(["a"])),
        )
        for name, run in calls:
            store.refuses(TierError, f"{name} of a closed store", run)
        store.shows("", ["a"])


TIER_STORE_CHECKS = Checks(
    "tier store",
    (
        Check("what was put is what is got", _check_round_trip),
        Check("big objects arrive whole, from a generator too", _check_big),
        Check("a put that fails writes nothing, and raises what its parts raised", _check_failed_puts),
        Check("put_if changes only the expected version", _check_conditions),
        Check("of several put_if with one version exactly one returns", _check_rivals),
        Check("no increment by get and put_if is lost", _check_counting),
        Check("readers see the old or the new object", _check_whole_reads),
        Check("get_range returns exactly the range, or raises TierCorrupt", _check_ranges),
        Check("objects and keys up to the limits, and not beyond", _check_limits),
        Check("list returns all objects below the prefix, in order", _check_lists),
        Check("list_folders returns the folders that have objects", _check_folders),
        Check("deleted objects are gone, and missing ones are no error", _check_deletes),
        Check("keys that lead elsewhere are refused", _check_hostile),
        Check("all stores of one URL have the same objects", _check_sharing),
        Check("closing twice is harmless, and a closed store raises TierError", _check_closing),
    ),
)
