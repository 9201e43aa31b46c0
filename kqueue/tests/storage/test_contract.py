from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kqueue.storage import STORAGES, LocalStorage, MemoryStorage, Storage
from kqueue.testing import check_storage
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.tests.tables import for_each


def memory(folder: str) -> Storage:
    return MemoryStorage()


def faulty(folder: str) -> Storage:
    return FaultyStorage()


@for_each("make", [LocalStorage, memory, faulty])
def test_every_backend_keeps_the_contract(make: Callable[[str], Storage]) -> None:
    check_storage(make)


def test_storages_are_registered_by_name(tmp_path: Path) -> None:
    assert STORAGES.get("local")(str(tmp_path)).location == str(tmp_path)
    assert STORAGES.get("memory")("anywhere").location == "memory"
