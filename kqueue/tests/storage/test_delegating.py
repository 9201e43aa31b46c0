from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kqueue.storage import DelegatingFile, DelegatingStorage, File, LocalStorage, MemoryStorage, Storage
from kqueue.storage.guarded_storage import RESULT_TYPES, GuardedFile
from kqueue.testing import check_storage
from kqueue.tests.tables import for_each


class WrappedStorage(DelegatingStorage):
    """Delegates its files too."""

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> DelegatingFile:
        return DelegatingFile(super().open(path, create=create, size=size))


def members(contract: type) -> set[str]:
    """The public methods and properties that a protocol declares."""
    return {name for name in vars(contract) if not name.startswith("_")}


def test_every_member_of_the_contract_is_delegated() -> None:
    assert members(Storage) == members(DelegatingStorage) - {"sealer"} == members(LocalStorage)  # only some have one
    assert members(File) == members(DelegatingFile)
    assert {"open", "rename", "location"} < members(Storage)
    assert {"size", "append"} < members(File)


def test_every_call_to_a_plugin_is_guarded() -> None:
    """A new method of the contract fails here until the guard knows what it may return."""
    assert members(Storage) - {"location", "opener"} == set(RESULT_TYPES)
    assert members(File) == members(GuardedFile)


def test_every_call_passes_the_hook() -> None:
    names: list[str] = []

    class CountingStorage(DelegatingStorage):
        def _delegate(self, name: str, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            names.append(name)
            return method(*args, **kwargs)

    storage = CountingStorage(MemoryStorage())
    storage.make_folder("f")
    storage.open("f/a", create=True).append(b"1")
    storage.write_atomic("f/b", storage.read("f/a"))
    storage.rename("f/b", "f/c")
    storage.sync_folder("f")
    assert [entry.name for entry in storage.list("f")] == ["a", "c"]
    storage.remove("f/c")
    assert not storage.exists("f/c")
    storage.lock("lock").release()
    assert (storage.free_bytes(), storage.total_bytes()) == (None, None)
    assert set(names) == set(RESULT_TYPES)


@for_each("make", [LocalStorage, lambda folder: MemoryStorage()])
def test_delegating_storage_keeps_the_contract(make: Callable[[str], Storage]) -> None:
    check_storage(lambda folder: WrappedStorage(make(folder)), isolated=False)


def test_another_process_is_not_given_the_inner_storage(tmp_path: Path) -> None:
    assert LocalStorage(tmp_path).opener is not None
    assert DelegatingStorage(LocalStorage(tmp_path)).opener is None
