from __future__ import annotations

import contextlib
import errno
import itertools
import random
import struct
from bisect import bisect_right
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.base.errors import CorruptIndex, TooManyOpenFiles
from kqueue.log.formats.index_file import IndexFile
from kqueue.storage import LocalStorage, MemoryStorage, Storage
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples

PAIR = struct.Struct(">ii")


def make() -> tuple[MemoryStorage, IndexFile]:
    storage = MemoryStorage()
    return storage, IndexFile(storage, "a", PAIR, create=True)


def test_entries_are_in_the_file_as_soon_as_they_are_appended() -> None:
    storage, entries = make()
    entries.append(PAIR.pack(1, 2))
    assert storage.read("a") == entries.data() == PAIR.pack(1, 2)
    assert (entries.count, entries.at(0)) == (1, (1, 2))


def test_a_file_that_is_there_is_read_without_being_loaded_and_loaded_by_the_first_append() -> None:
    storage, entries = make()
    entries.append(PAIR.pack(1, 2))
    again = IndexFile(storage, "a", PAIR)
    assert again._tail is None
    assert again.at(0) == (1, 2)
    again.append(PAIR.pack(3, 4))
    assert again._tail is not None
    again.unload()
    assert [again.at(number) for number in range(again.count)] == [(1, 2), (3, 4)]


@for_each("loaded", [True, False])
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
    assert storage.read("a") == entries.data() == PAIR.pack(7, 8)
    entries.replace(b"")
    assert entries.count == 0
    assert storage.read("a") == b""


def test_half_an_entry_is_corrupt() -> None:
    storage, _ = make()
    storage.open("a").append(b"123")
    with pytest.raises(CorruptIndex, match="3 bytes, which is no multiple of 8"):
        IndexFile(storage, "a", PAIR).count  # noqa: B018


def risen(storage: Storage, count: int, seed: int = 1) -> tuple[IndexFile, list[int]]:
    """Entries (value, number) whose values rise by steps of very different sizes."""
    rng = random.Random(seed)
    values = list(itertools.accumulate(rng.choice((1, 1, 1, 7, 40_000)) for _ in range(count)))
    storage.open("a", create=True).append(b"".join(PAIR.pack(value, number) for number, value in enumerate(values)))
    return IndexFile(storage, "a", PAIR), values


@for_each("count", [0, 1, 127, 128, 129, 255, 256, 257, 1000, 20_000])
@for_each("loaded", [False, True])
def test_search_finds_what_bisect_finds(count: int, loaded: bool) -> None:
    entries, values = risen(MemoryStorage(), count)
    if loaded:
        entries.load()
    ends = [values[0] - 1, values[0], values[-1], values[-1] + 1] if values else [5]
    picked = random.Random(2).sample(values, min(300, count))
    for value in [*ends, *picked, *(one + 1 for one in picked)]:
        number = bisect_right(values, value) - 1
        assert entries.search(0, value) == ((number, (values[number], number)) if number >= 0 else (-1, ()))


def test_search_reads_few_blocks_and_never_the_whole_file(monkeypatch: pytest.MonkeyPatch) -> None:
    entries, values = risen(MemoryStorage(), 250_000)
    reads: list[int] = []
    real = entries.file.read_at
    monkeypatch.setattr(type(entries.file), "read_at", lambda self, at, size: reads.append(size) or real(at, size))
    for value in random.Random(3).sample(values, 200):
        reads.clear()
        entries.search(0, value)
        assert len(reads) <= 20
        assert max(reads) <= 1024


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(st.binary(min_size=8, max_size=8), max_size=700).map(b"".join)
    | st.integers(0, 3000).map(lambda n: bytes(8 * n)),
    st.integers(-5, 2**31),
)
def test_search_of_garbage_ends(data: bytes, value: int) -> None:
    storage = MemoryStorage()
    storage.open("a", create=True).append(data)
    with contextlib.suppress(CorruptIndex):
        number, fields = IndexFile(storage, "a", PAIR).search(0, value)
        assert (number == -1) == (fields == ())


def test_a_file_that_is_shorter_than_it_was_is_corrupt(tmp_path: Path) -> None:
    entries, _ = risen(LocalStorage(tmp_path), 1000)
    (tmp_path / "a").write_bytes(b"")
    for read in (lambda: entries.search(0, 5), lambda: entries.at(3), entries.last, entries.data, entries.load):
        with pytest.raises(CorruptIndex, match=r"a was cut: expected \d+ bytes at position \d+, found 0"):
            read()


def test_a_file_that_can_not_be_read_is_corrupt_and_too_few_descriptors_are_not() -> None:
    storage = FaultyStorage()
    entries, _ = risen(storage, 10)
    storage.fail("read")
    with pytest.raises(CorruptIndex, match="a can't be read: .*EIO"):
        entries.last()
    storage.mend()
    storage.fail("read", number=errno.EMFILE)
    with pytest.raises(TooManyOpenFiles):
        entries.last()


def test_a_removed_file_is_made_again_by_replace(tmp_path: Path) -> None:
    entries, _ = risen(LocalStorage(tmp_path), 10)
    (tmp_path / "a").unlink()
    with pytest.raises(CorruptIndex, match="can't be read"):
        entries.last()
    entries.replace(PAIR.pack(5, 6))
    assert (tmp_path / "a").read_bytes() == PAIR.pack(5, 6)
    assert entries.last() == (0, (5, 6))


def test_a_file_that_lost_what_was_appended_is_written_again(tmp_path: Path) -> None:
    entries, _ = risen(LocalStorage(tmp_path), 10)
    entries.append(PAIR.pack(2**30, 10))
    data = entries.data()
    with (tmp_path / "a").open("r+b") as file:
        file.truncate(20)
    entries.append(PAIR.pack(2**30 + 1, 11))
    assert "was changed" in str(entries.unload())
    assert (tmp_path / "a").read_bytes() == data + PAIR.pack(2**30 + 1, 11) == entries.data()
    entries.load()
    assert entries.unload() is None
