"""Public contract checks for storages, to be run in the tests of a storage plugin."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, cast

from kqueue.base.errors import FolderInUse, StorageFailed
from kqueue.storage.contract import File, FolderEntry, Storage
from kqueue.testing.contract_checks import Check, Checks, ContractTrial, raises, same
from kqueue.testing.isolation import check_contract

_STEPS = 400
JUST_NOW_MS = 60_000
_CALLS = {
    name
    for part in (Storage, File)
    for name, value in vars(part).items()
    if callable(value) and not name.startswith("_")
}
_STRANGE_PATHS = ("../a", "a/../../b", "/etc/passwd", "a//b", "a/", ".", "a/./b", "a\\b", "a\0b")


def check_storage(
    make: Callable[[str], Storage] | str, *, seed: int = 1, time_limit_s: float = 60, isolated: bool = True
) -> None:
    """Check that a storage meets the contract in `kqueue.storage.contract`.

    Power cuts are not simulated.

    Args:
        make: returns a new, empty storage, given the path of an empty folder; the registered
            object, or its ``module:object`` path. Each check calls it with a folder of its own,
            which is deleted afterwards.
        seed: seeds the random bytes.
        time_limit_s: limit for all checks together, in seconds.
        isolated: False runs the checks in this process, without a time limit, for objects that
            cannot be pickled.
    Raises:
        AssertionError: a check failed; the message names the check, the call and the result.
        TypeError: `make` cannot be sent to another process.
    """
    check_contract(STORAGE_CHECKS, make, {"seed": seed}, time_limit_s=time_limit_s, isolated=isolated)


def appends_go_to_the_end(storage: Storage) -> None:
    """Check that `append` writes at the end and returns the position before the write."""
    file = storage.open("a.log", create=True)
    same("size of a new file", file.size, 0)
    same("append(b'abc') to an empty file", file.append(b"abc"), 0)
    same("append(bytearray(b'de')) to 3 bytes", file.append(bytearray(b"de")), 3)
    same("append of a memoryview of b'fg' to 5 bytes", file.append(memoryview(b"xfgx")[1:3]), 5)
    same("append(b'') to 7 bytes", file.append(b""), 7)
    same("size after 7 bytes", file.size, 7)
    same("read of the file after four appends", storage.read("a.log"), b"abcdefg")


def ages_are_those_of_the_last_change(storage: Storage) -> None:
    """Check that `age_ms` is None or small after each kind of change."""
    file = storage.open("a.log", create=True)
    for what, change in (
        ("append", lambda: file.append(b"0123456789")),
        ("truncate", lambda: file.truncate(4)),
        ("close", file.close),
    ):
        change()
        age_ms = file.age_ms()
        just_now = age_ms is None or (type(age_ms) is int and 0 <= age_ms < JUST_NOW_MS)
        assert just_now, f"age_ms() after {what}: expected None or less than {JUST_NOW_MS} ms, found {age_ms!r}"


def reads_end_with_the_file(storage: Storage) -> None:
    """Check that `read_at` stops at the end of the file."""
    file = storage.open("a.log", create=True)
    file.append(b"0123456789")
    for position, size, expected in ((2, 3, b"234"), (8, 10, b"89"), (10, 1, b""), (50, 5, b""), (0, 0, b"")):
        same(f"read_at({position}, {size}) of b'0123456789'", file.read_at(position, size), expected)


def big_appends_arrive_whole(storage: Storage) -> None:
    """Check that one append of 2 MiB is written completely."""
    data = bytes(range(256)) * 8192
    file = storage.open("a.log", create=True)
    file.append(b"x")
    same(f"append of {len(data)} bytes to 1 byte", file.append(data), 1)
    assert file.read_at(1, len(data)) == data, f"read_at(1, {len(data)}) gave other bytes than were appended"


def files_stay_after_closing(storage: Storage) -> None:
    """Check that a closed file keeps its bytes and reopens on the next append."""
    file = storage.open("a.log", create=True)
    file.append(b"abc")
    file.close()
    file.close()
    same("size of a closed file of 3 bytes", file.size, 3)
    same("append(b'd') to a closed file of 3 bytes, which reopens itself,", file.append(b"d"), 3)
    file.close()
    again = storage.open("a.log")
    same("size of a file of 4 bytes that was reopened", again.size, 4)
    same("read_at(0, 9) of a file that was reopened", again.read_at(0, 9), b"abcd")
    same("append(b'e') to 4 bytes", again.append(b"e"), 4)
    same(
        "size of an existing file of 5 bytes, opened with create=True,",
        storage.open("a.log", create=True).size,
        5,
    )
    same("append to a file opened with size=5", storage.open("a.log", size=5).append(b"f"), 5)


def truncation_cuts_the_end(storage: Storage) -> None:
    """Check that `truncate` removes the bytes after the size, and that appends follow it."""
    file = storage.open("a.log", create=True)
    file.append(b"0123456789")
    file.truncate(4)
    same("size after truncate(4)", file.size, 4)
    same("append(b'ab') after truncate(4)", file.append(b"ab"), 4)
    file.sync()
    same("read of b'0123456789' after truncate(4) and append(b'ab')", storage.read("a.log"), b"0123ab")
    file.truncate(0)
    same("read after truncate(0)", storage.read("a.log"), b"")


def no_byte_is_lost(storage: Storage, seed: int = 1) -> None:
    """Compare a random sequence of file operations with the same operations on a bytearray.

    Args:
        seed: seeds the choice of operations and the bytes.
    """
    rng = random.Random(seed)
    file, model = storage.open("a.log", create=True), bytearray()
    for step in range(_STEPS):
        what = rng.choice(("append", "append", "truncate", "sync", "close", "reopen", "read"))
        if what == "append":
            data = rng.randbytes(rng.choice((1, 15, 16, 61, 511, 4096, 5000)))
            same(f"step {step}, append of {len(data)} bytes to {len(model)}", file.append(data), len(model))
            model += data
        elif what == "truncate":
            size = rng.randint(len(model) // 2, len(model))
            file.truncate(size)
            del model[size:]
        elif what == "reopen":
            file.close()
            file = storage.open("a.log")
        elif what != "read":
            getattr(file, what)()
        _compare(file, model, rng, f"step {step}, after {what} at {len(model)} bytes")
    assert storage.read("a.log") == model, f"after {_STEPS} steps, read gave other bytes than were written"


def _compare(file: File, model: bytearray, rng: random.Random, about: str) -> None:
    same(f"{about}: size", file.size, len(model))
    position, size = rng.randint(0, len(model)), rng.choice((1, 16, 700, 9000))
    expected = bytes(model[position : position + size])
    assert file.read_at(position, size) == expected, (
        f"{about}: read_at({position}, {size}) gave other bytes than were written"
    )
    assert file.read_at(position, size) == expected, (
        f"{about}: read_at({position}, {size}) gave other bytes the second time"
    )
    region = file.region(position, len(expected))
    assert region.read() == expected, f"{about}: region({position}, {len(expected)}) gave other bytes than were written"


def regions_outlive_their_file(storage: Storage) -> None:
    """Check that a region can be read after its file was closed and removed."""
    file = storage.open("a.log", create=True)
    file.append(b"0123456789")
    region = file.region(3, 4)
    same("len of region(3, 4)", len(region), 4)
    assert region.is_region, "region returned an object whose is_region is not True"
    assert region.is_cached(), "is_cached returned False for bytes that were just written"
    file.append(b"more")
    file.close()
    storage.remove("a.log")
    same("read of region(3, 4) of b'0123456789', after its file was closed and removed,", region.read(), b"3456")
    number = region.fileno()
    assert number is None or number > 2, f"fileno gave {number!r}, expected None or a descriptor"


def missing_files_are_reported(storage: Storage) -> None:
    """Check that every operation on a missing file raises FileNotFoundError."""
    for what, use in (
        ("open('none')", lambda: storage.open("none")),
        ("open('no/folder/a', create=True)", lambda: storage.open("no/folder/a", create=True)),
        ("read('none')", lambda: storage.read("none")),
        ("remove('none')", lambda: storage.remove("none")),
        ("rename('none', 'some')", lambda: storage.rename("none", "some")),
        ("list('none')", lambda: storage.list("none")),
        ("sync_folder('none')", lambda: storage.sync_folder("none")),
    ):
        raises(FileNotFoundError, what, use)
    same("exists('none')", storage.exists("none"), False)


def folders_hold_names(storage: Storage) -> None:
    """Check `make_folder`, `list`, `exists`, `remove` and `sync_folder` on nested folders."""
    storage.make_folder("b/c")
    storage.make_folder("b/c")
    storage.open("b/file", create=True).append(b"xyz")
    storage.open("b/c/deep", create=True)
    same("list('') with one folder", storage.list(""), [FolderEntry("b", 0, True)])
    listed = storage.list("b")
    same(
        "list('b') with a folder and 3 bytes, sorted,",
        listed,
        [FolderEntry("c", 0, True), FolderEntry("file", 3, False)],
    )
    assert all(isinstance(entry, FolderEntry) for entry in listed), (
        f"list('b') gave {listed!r}, expected FolderEntry objects"
    )
    same("exists of a folder", storage.exists("b"), True)
    same("exists of a file in a folder", storage.exists("b/c/deep"), True)
    raises(StorageFailed, "remove of a folder that is not empty", lambda: storage.remove("b/c"))
    storage.remove("b/c/deep")
    storage.remove("b/c")
    same("names of list('b') after removals", [entry.name for entry in storage.list("b")], ["file"])
    storage.sync_folder("b")
    storage.sync_folder("")


def renaming_replaces(storage: Storage) -> None:
    """Check that `rename` replaces an existing file and also renames folders."""
    storage.make_folder("f")
    storage.open("f/a", create=True).append(b"new")
    storage.open("f/b", create=True).append(b"old")
    storage.rename("f/a", "f/b")
    same("read of a file replaced by rename", storage.read("f/b"), b"new")
    same("names after rename('f/a', 'f/b')", [entry.name for entry in storage.list("f")], ["b"])
    storage.rename("f", "g")
    same("read of a file whose folder was renamed", storage.read("g/b"), b"new")
    same("exists of the folder's old name", storage.exists("f"), False)
    storage.make_folder("f")
    same("list of a new folder of the old name", storage.list("f"), [])


def atomic_writes_replace(storage: Storage) -> None:
    """Check that `write_atomic` replaces the file and leaves no temporary file."""
    storage.make_folder("f")
    storage.write_atomic("f/checkpoint", b"one")
    storage.write_atomic("f/checkpoint", b"two!")
    same("read after write_atomic of b'one', then b'two!',", storage.read("f/checkpoint"), b"two!")
    same("names after two write_atomic of one file", [entry.name for entry in storage.list("f")], ["checkpoint"])


def locks_exclude(storage: Storage) -> None:
    """Check that a held lock raises FolderInUse for others, and that `release` may be repeated."""
    lock = storage.lock(".lock")
    raises(FolderInUse, "lock of a name that is locked", lambda: storage.lock(".lock"))
    same("check of a lock that is held", lock.check(), None)
    raises(FolderInUse, "lock of a name that is locked and was checked", lambda: storage.lock(".lock"))
    lock.release()
    same("check of a lock that was released", lock.check(), None)
    lock.release()
    storage.lock(".lock").release()


def paths_stay_inside(storage: Storage) -> None:
    """Check that paths outside the root, and malformed paths, raise ValueError."""
    storage.open("a", create=True)
    for path in _STRANGE_PATHS:
        for name in ("open", "remove", "list", "make_folder", "exists", "read", "sync_folder"):
            raises(ValueError, f"{name}({path!r})", partial(getattr(storage, name), path))
        raises(ValueError, f"write_atomic({path!r})", partial(storage.write_atomic, path, b""))
        raises(ValueError, f"rename('a', {path!r})", partial(storage.rename, "a", path))


def free_bytes_are_a_number(storage: Storage) -> None:
    """Check that free and total bytes are an int or None, and that `location` is not empty."""
    free, total = storage.free_bytes(), storage.total_bytes()
    for what, answer in (("free_bytes", free), ("total_bytes", total)):
        assert answer is None or type(answer) is int, f"{what} gave {answer!r}, expected an int or None"
        assert answer is None or answer >= 0, f"{what} gave {answer}, expected no less than 0"
    assert total is None or free is None or total >= free, f"total_bytes gave {total}, less than free_bytes, {free}"
    assert isinstance(storage.location, str), f"location is text, found {storage.location!r}"
    assert storage.location, "location is empty, expected a description of where the storage is"


def an_opener_finds_the_same_files(storage: Storage) -> None:
    """Check that a pickled `opener` opens the same files; storages without one pass."""
    if storage.opener is None:
        return
    storage.open("shared", create=True).append(b"seen")
    try:
        opener = pickle.loads(pickle.dumps(storage.opener))
    except Exception as error:
        raise AssertionError(f"its opener cannot be pickled: {error!r}") from error
    other: Storage = opener()
    same("read through the storage that the opener returns", other.read("shared"), b"seen")
    other.open("answer", create=True).append(b"seen too")
    same("read of a file written through the opener's storage", storage.read("answer"), b"seen too")


def threads_may_sync_beside_the_writer(storage: Storage) -> None:
    """Check that sync, `write_atomic` and region reads may run in threads beside appends."""
    storage.make_folder("f")
    file, written = storage.open("a.log", create=True), bytearray()
    with ThreadPoolExecutor(3) as pool:
        for number in range(40):
            data = bytes([number]) * 1000
            written += data
            file.append(data)
            beside = pool.submit(file.sync), pool.submit(storage.write_atomic, f"f/{number % 3}", data)
            reading = pool.submit(file.region(number * 1000, 1000).read)
            same(f"region({number * 1000}, 1000).read() in another thread", reading.result(), data)
            for one in beside:
                one.result()
    assert storage.read("a.log") == written, "read gave other bytes than were appended while other threads ran"
    same("names after write_atomic in other threads", [entry.name for entry in storage.list("f")], ["0", "1", "2"])


class _RecordedCalls:
    """Proxy for a storage or one of its files that reports each call to the trial."""

    def __init__(self, trial: ContractTrial[Any], value: object, name: str) -> None:
        self._trial = trial
        self._value = value
        self._name = name

    def __getattr__(self, name: str) -> Any:
        what = f"{self._name}.{name}"
        attribute = self._trial.ask(what, lambda: getattr(self._value, name))
        return partial(self._call, attribute, what) if name in _CALLS else attribute

    def _call(self, method: Callable[..., object], what: str, *args: object, **named: object) -> object:
        given = ", ".join([*map(_short, args), *(f"{name}={_short(value)}" for name, value in named.items())])
        result = self._trial.ask(f"{what}({given})", lambda: method(*args, **named))
        return _RecordedCalls(self._trial, result, f"{what}({given})") if what == "storage.open" else result


def _short(value: object) -> str:
    return (
        repr(value)
        if not isinstance(value, bytes | bytearray | memoryview) or len(value) < 20
        else f"{len(value)} bytes"
    )


def _on_new_storage(check: Callable[[Storage], None], trial: ContractTrial[Callable[[str], Storage]]) -> None:
    storage = trial.ask(f"opening a storage in the folder {trial.folder}", lambda: trial.plugin(trial.folder))
    check(cast(Storage, _RecordedCalls(trial, storage, "storage")))


def _no_byte_is_lost(trial: ContractTrial[Callable[[str], Storage]]) -> None:
    _on_new_storage(partial(no_byte_is_lost, seed=trial.options["seed"]), trial)


STORAGE_CHECKS = Checks(
    "storage",
    (
        Check("appends go to the end", partial(_on_new_storage, appends_go_to_the_end)),
        Check("ages count from the last change", partial(_on_new_storage, ages_are_those_of_the_last_change)),
        Check("reads stop at the end of the file", partial(_on_new_storage, reads_end_with_the_file)),
        Check("large appends are written completely", partial(_on_new_storage, big_appends_arrive_whole)),
        Check("files keep their bytes after close", partial(_on_new_storage, files_stay_after_closing)),
        Check("truncation cuts the end", partial(_on_new_storage, truncation_cuts_the_end)),
        Check("no byte is lost or changed", _no_byte_is_lost),
        Check("regions outlive their file", partial(_on_new_storage, regions_outlive_their_file)),
        Check("missing files raise FileNotFoundError", partial(_on_new_storage, missing_files_are_reported)),
        Check("folders hold names", partial(_on_new_storage, folders_hold_names)),
        Check("renaming replaces", partial(_on_new_storage, renaming_replaces)),
        Check("atomic writes replace", partial(_on_new_storage, atomic_writes_replace)),
        Check("locks exclude", partial(_on_new_storage, locks_exclude)),
        Check("paths stay inside the root, others raise ValueError", partial(_on_new_storage, paths_stay_inside)),
        Check("free bytes and the location are reported", partial(_on_new_storage, free_bytes_are_a_number)),
        Check("its opener finds the same files", partial(_on_new_storage, an_opener_finds_the_same_files)),
        Check(
            "threads may sync, write atomically and read beside the writer",
            partial(_on_new_storage, threads_may_sync_beside_the_writer),
        ),
    ),
)
