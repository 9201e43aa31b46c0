from __future__ import annotations

from collections.abc import Callable

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.storage import LocalStorage, MemoryStorage, Storage
from kqueue.storage.fault_injection import FaultInjectingStorage, InjectedFailure, StorageHooks
from kqueue.testing import check_storage
from kqueue.tests.tables import for_each

Seen = list[tuple[str, str, int]]


def nothing(kind: str, path: str, size: int) -> None:
    return None


@for_each("hooks", [(), (nothing,)])
@for_each("memory", [True, False])
def test_fault_injecting_storage_keeps_the_contract(memory: bool, hooks: tuple[Callable[..., None], ...]) -> None:
    all_hooks = StorageHooks()
    all_hooks.hooks = hooks
    check_storage(
        lambda folder: FaultInjectingStorage(MemoryStorage() if memory else LocalStorage(folder), all_hooks),
        isolated=False,
    )


def changes(storage: Storage) -> dict[str, Callable[[], object]]:
    """Each change, on a storage in which ``f/a`` is of two bytes."""
    storage.make_folder("f")
    file = storage.open("f/a", create=True)
    file.append(b"12")
    return {
        "append": lambda: file.append(b"345"),
        "truncate": lambda: file.truncate(1),
        "sync": file.sync,
        "create": lambda: storage.open("f/b", create=True),
        "make_folder": lambda: storage.make_folder("g"),
        "write_atomic": lambda: storage.write_atomic("f/c", b"6789"),
        "rename": lambda: storage.rename("f/a", "f/d"),
        "remove": lambda: storage.remove("f/a"),
        "sync_folder": lambda: storage.sync_folder("f"),
    }


KINDS = tuple(changes(MemoryStorage()))


@for_each("kind", KINDS)
def test_each_change_is_asked_about_and_can_fail(kind: str) -> None:
    seen: Seen = []
    inner = MemoryStorage()
    hooks = StorageHooks()
    change = changes(FaultInjectingStorage(inner, hooks))[kind]
    before = contents(inner)

    def hook(kind: str, path: str, size: int) -> InjectedFailure:
        seen.append((kind, path, size))
        return InjectedFailure(StorageFailed("as asked"))

    hooks.hooks = (nothing, hook)
    with pytest.raises(StorageFailed, match="as asked"):
        change()
    path, size = {
        "append": ("f/a", 3),
        "create": ("f/b", 0),
        "make_folder": ("g", 0),
        "write_atomic": ("f/c", 4),
        "sync_folder": ("f", 0),
    }.get(kind, ("f/a", 0))
    assert seen == [(kind, path, size)]
    assert contents(inner) == before
    hooks.hooks = ()
    if kind == "sync":  # as on a disk, where what was to be synced may be lost
        with pytest.raises(StorageFailed, match="as asked"):
            change()
    else:
        change()


def contents(storage: Storage) -> list[object]:
    return [storage.list(""), storage.list("f"), storage.read("f/a")]


@for_each("written", [0, 1, 2])
def test_a_part_of_an_append_may_be_written(written: int) -> None:
    hooks = StorageHooks()
    storage = FaultInjectingStorage(MemoryStorage(), hooks)
    file = storage.open("a", create=True)
    file.append(b"1")
    hooks.hooks = (lambda kind, path, size: InjectedFailure(StorageFailed("torn"), written),)
    with pytest.raises(StorageFailed, match="torn"):
        file.append(memoryview(b"234"))
    assert storage.read("a") == b"1234"[: 1 + written]
    assert file.size == 1 + written


def test_existing_files_and_folders_need_no_room() -> None:
    """Opening with `create`, and folders that exist, change nothing."""
    hooks = StorageHooks()
    storage = FaultInjectingStorage(MemoryStorage(), hooks)
    changes(storage)
    hooks.hooks = (lambda kind, path, size: InjectedFailure(StorageFailed("full")),)
    storage.open("f/a", create=True)
    storage.make_folder("f")
