from __future__ import annotations

import sys
import threading

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.storage import MemoryStorage


def test_an_open_file_lives_on_when_its_name_is_gone() -> None:
    storage = MemoryStorage()
    file = storage.open("a", create=True)
    file.append(b"abc")
    storage.remove("a")
    assert file.read_at(0, 3) == b"abc"
    assert storage.open("a", create=True).size == 0


def test_a_folder_and_a_file_can_not_share_a_name() -> None:
    storage = MemoryStorage()
    storage.open("a", create=True)
    with pytest.raises(StorageFailed):
        storage.make_folder("a")
    storage.make_folder("f")
    storage.open("g", create=True)
    with pytest.raises(StorageFailed):
        storage.rename("g", "f")


def test_renaming_a_folder_moves_what_is_deep_in_it_and_nothing_beside_it() -> None:
    storage = MemoryStorage()
    storage.make_folder("f/g")
    storage.make_folder("fx")
    storage.open("f/g/a", create=True).append(b"1")
    storage.open("fx/a", create=True).append(b"2")
    storage.rename("f", "h")
    assert storage.read("h/g/a") == b"1"
    assert storage.read("fx/a") == b"2"
    assert [entry.name for entry in storage.list("")] == ["fx", "h"]


def test_reads_in_another_thread_do_not_stand_in_the_way_of_the_writer() -> None:
    file = MemoryStorage().open("a", create=True)
    file.append(bytes(1 << 20))
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            file.read_at(0, 1 << 20)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(3000):
            file.append(b"x" * 100)
    finally:
        ended.set()
        reader.join()
        sys.setswitchinterval(before)
    assert file.size == (1 << 20) + 300_000
