from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kqueue.storage import STORAGES, LocalStorage, MemoryStorage, Storage
from kqueue.testing.storage import FaultyStorage
from kqueue.testing.storage_check import STORAGE_CHECKS, check_storage

MAKERS: dict[str, Callable[[Path], Storage]] = {
    "local": LocalStorage,
    "memory": lambda path: MemoryStorage(),
    "faulty": lambda path: FaultyStorage(),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("check", STORAGE_CHECKS, ids=lambda check: check.__name__)
def test_every_backend_keeps_the_contract(maker: str, check: Callable[[Storage], None], tmp_path: Path) -> None:
    check(MAKERS[maker](tmp_path / "data"))


def test_the_checker_makes_a_storage_for_each_check() -> None:
    made: list[Storage] = []

    def make() -> Storage:
        made.append(MemoryStorage())
        return made[-1]

    check_storage(make)
    assert len(made) == len(STORAGE_CHECKS)


def test_the_checker_notices_a_storage_that_forgets_what_is_closed() -> None:
    class Forgetful(MemoryStorage):
        def read(self, path: str) -> bytes:
            return b""

    with pytest.raises(AssertionError):
        check_storage(Forgetful)


def test_storages_are_registered_by_name(tmp_path: Path) -> None:
    assert STORAGES.get("local")(str(tmp_path)).place == str(tmp_path)
    assert STORAGES.get("memory")("anywhere").place == "memory"
