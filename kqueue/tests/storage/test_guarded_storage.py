from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from kqueue.base.errors import FolderInUse, PluginError, StorageFailed
from kqueue.storage import STORAGES, LocalStorage, MemoryStorage, Storage
from kqueue.storage.contract import File
from kqueue.storage.guarded_storage import GuardedFile, GuardedStorage
from kqueue.testing import check_storage
from kqueue.tests.plugged import OtherStorage, make_nothing, make_storage

TITLE = "storage 'odd' of some-plugin 2.1"


def guarded(storage: Any) -> Storage:
    return STORAGES.guarded("odd", lambda folder: storage, "some-plugin 2.1")("")


def test_storage_keeps_the_contract_behind_the_guard(tmp_path: Path) -> None:
    check_storage(STORAGES.guarded("mine", make_storage, "a test"), isolated=False)
    storage = STORAGES.guarded("mine", make_storage, "a test")(str(tmp_path))
    assert (type(storage), storage.location) == (GuardedStorage, str(tmp_path))


def test_opener_is_guarded_and_can_be_pickled(tmp_path: Path) -> None:
    guard = STORAGES.guarded("mine", make_storage, "a test")(str(tmp_path))
    guard.write_atomic("a", b"1")
    assert guard.opener is not None
    other = pickle.loads(pickle.dumps(guard.opener))()
    assert isinstance(other, GuardedStorage)
    assert other.read("a") == b"1"
    assert guarded(MemoryStorage()).opener is None


METHODS: list[tuple[str, tuple[Any, ...], object]] = [
    ("read", ("a",), "text"),
    ("exists", ("a",), None),
    ("list", ("",), ["a"]),
    ("make_folder", ("b",), 1),
    ("remove", ("a",), 1),
    ("rename", ("a", "b"), 1),
    ("sync_folder", ("",), 1),
    ("write_atomic", ("a", b""), 1),
    ("free_bytes", (), "much"),
    ("total_bytes", (), 1.5),
]


@pytest.mark.parametrize(("method", "arguments", "wrong"), METHODS)
def test_broken_contract_is_a_failure_that_names_the_storage(
    method: str, arguments: tuple[Any, ...], wrong: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = guarded(OtherStorage(str(tmp_path)))

    def failing(*_: object) -> None:
        raise KeyError("the secret is 42")

    monkeypatch.setattr(OtherStorage, method, failing)
    with pytest.raises(StorageFailed, match=f"{TITLE}: {method} failed: KeyError") as caught:
        getattr(storage, method)(*arguments)
    assert "secret" not in caught.value.summary
    monkeypatch.setattr(OtherStorage, method, lambda *_: wrong)
    storage_under_test = "str" if isinstance(wrong, list) else type(wrong).__name__
    with pytest.raises(
        StorageFailed, match=f"{TITLE} broke its contract: {method} returned {storage_under_test}, expected "
    ):
        getattr(storage, method)(*arguments)


class OddFile:
    """Wrong in everything."""

    size = "large"
    result: object = None

    def __getattr__(self, name: str) -> Any:
        return lambda *_: "odd"


FILE_CALLS: list[tuple[str, tuple[Any, ...]]] = [
    ("append", (b"x",)),
    ("read_at", (0, 1)),
    ("truncate", (0,)),
    ("sync", ()),
    ("region", (0, 1)),
    ("close", ()),
]


def odd_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> File:
    monkeypatch.setattr(OtherStorage, "open", lambda *_, **__: OddFile())
    return guarded(OtherStorage(str(tmp_path))).open("a", create=True)


@pytest.mark.parametrize(("method", "arguments"), FILE_CALLS)
def test_file_that_breaks_the_contract_is_reported(
    method: str, arguments: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = odd_file(tmp_path, monkeypatch)
    with pytest.raises(StorageFailed, match=f"{TITLE} broke its contract: {method} returned str"):
        getattr(file, method)(*arguments)


def test_sizes_and_reads_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StorageFailed, match="size returned str, expected int"):
        odd_file(tmp_path, monkeypatch).size  # noqa: B018
    monkeypatch.setattr(OddFile, "read_at", lambda *_: b"12345", raising=False)
    file = odd_file(tmp_path, monkeypatch)
    assert file.read_at(0, 5) == b"12345"
    with pytest.raises(StorageFailed, match="read_at returned 5 bytes where 4 were asked for"):
        file.read_at(0, 4)


def test_a_region_stays_guarded_after_its_file(tmp_path: Path) -> None:
    class Source:
        def read_at(self, position: int, size: int) -> bytes:
            raise OSError("the secret is 42")

        def fileno(self) -> int | None:
            return None

        def is_cached(self, position: int, size: int) -> bool:
            return True

    storage = guarded(LocalStorage(str(tmp_path)))
    file = storage.open("a", create=True)
    file.append(b"123")
    assert file.region(1, 2).read() == b"23"
    region = file.region(1, 2)
    region.source._source = Source()  # type: ignore[attr-defined]
    assert region.fileno() is None
    with pytest.raises(StorageFailed, match=f"{TITLE}: read_at failed: OSError"):
        region.read()


def test_permitted_exceptions_pass(tmp_path: Path) -> None:
    storage = guarded(OtherStorage(str(tmp_path)))
    with pytest.raises(FileNotFoundError):
        storage.read("none")
    with pytest.raises(ValueError, match="no path under"):
        storage.read("../up")
    lock = storage.lock("lock")
    with pytest.raises(FolderInUse):
        guarded(OtherStorage(str(tmp_path))).lock("lock")
    lock.release()
    storage.lock("lock").release()


def test_factory_without_a_storage_is_refused() -> None:
    with pytest.raises(
        PluginError, match="storage 'odd' of a test: expected a Storage, found NoneType without the method open"
    ):
        STORAGES.guarded("odd", make_nothing, "a test")("")  # type: ignore[arg-type]
    with pytest.raises(PluginError, match="expected a callable that takes a data folder's path, found 5"):
        STORAGES.guarded("odd", 5, "a test")  # type: ignore[arg-type]
    with pytest.raises(StorageFailed, match="storage 'odd' of a test: opening failed: TypeError"):
        STORAGES.guarded("odd", lambda: MemoryStorage(), "a test")("")  # type: ignore[arg-type]


def test_built_in_storages_are_not_guarded(tmp_path: Path) -> None:
    assert type(STORAGES.get("local")(str(tmp_path))) is LocalStorage
    assert not isinstance(STORAGES.get("local")(str(tmp_path)).open("a", create=True), GuardedFile)
