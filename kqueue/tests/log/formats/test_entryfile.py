from __future__ import annotations

import struct

import pytest

from kqueue.base.errors import CorruptIndex
from kqueue.log.formats.entryfile import EntryFile
from kqueue.storage import MemoryStorage

PAIR = struct.Struct(">ii")


def make() -> tuple[MemoryStorage, EntryFile]:
    storage = MemoryStorage()
    return storage, EntryFile(storage, "a", PAIR, create=True)


def test_entries_are_in_the_file_as_soon_as_they_are_appended() -> None:
    storage, entries = make()
    entries.append(PAIR.pack(1, 2))
    assert storage.read("a") == bytes(entries.view()) == PAIR.pack(1, 2)
    assert (entries.count, entries.at(0)) == (1, (1, 2))


def test_a_file_that_is_there_is_read_without_being_loaded_and_loaded_by_the_first_append() -> None:
    storage, entries = make()
    entries.append(PAIR.pack(1, 2))
    again = EntryFile(storage, "a", PAIR)
    assert not again.is_loaded
    assert again.at(0) == (1, 2)
    again.append(PAIR.pack(3, 4))
    assert again.is_loaded
    again.unload()
    assert [again.at(number) for number in range(again.count)] == [(1, 2), (3, 4)]


@pytest.mark.parametrize("loaded", [True, False])
def test_cutting_and_replacing_change_file_and_memory_alike(loaded: bool) -> None:
    storage, entries = make()
    for number in range(4):
        entries.append(PAIR.pack(number, number))
    if not loaded:
        entries.unload()
    entries.cut(2)
    assert (entries.count, entries.at(1)) == (2, (1, 1))
    entries.cut(9)
    assert entries.count == 2
    entries.replace(PAIR.pack(7, 8))
    assert storage.read("a") == bytes(entries.view()) == PAIR.pack(7, 8)
    entries.replace(b"")
    assert entries.count == 0
    assert storage.read("a") == b""


def test_half_an_entry_is_corrupt() -> None:
    storage, _ = make()
    storage.open("a").append(b"123")
    with pytest.raises(CorruptIndex, match="3 bytes, which is no multiple of 8"):
        EntryFile(storage, "a", PAIR).count  # noqa: B018
