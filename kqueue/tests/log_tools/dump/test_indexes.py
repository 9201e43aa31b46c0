from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kqueue.log.formats.offset_index import ENTRY as INDEX_ENTRY
from kqueue.log.formats.time_index import ENTRY as TIME_ENTRY
from kqueue.log_tools.dump import DumpOptions, indexes
from kqueue.records.message_set import encode_entry
from kqueue.tests.log_tools.damage import put
from kqueue.tests.log_tools.dump.sample_logs import ZERO, dumped, made


def changed(path: Path, entry: struct.Struct, number: int, *fields: int) -> None:
    put(path, number * entry.size, entry.pack(*fields))


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_every_entry_of_a_sound_log_is_shown_and_agrees(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S7.2: for each chunk size."""
    path = made(tmp_path).with_suffix(suffix)
    size = path.with_suffix(".log").stat().st_size // 6
    position = [f"offset: {3 * number + 2} position: {number * size}" for number in range(1, 6)]
    times = [f"timestamp: {1000 * (number + 1) + 2} offset: {3 * number + 2}" for number in range(1, 6)]
    for chunk in (1, 2, 8192):
        monkeypatch.setattr(indexes, "CHUNK_ENTRIES", chunk)
        lines, told, problems = dumped(path)
        assert lines == (position if suffix == ".index" else times)
        assert (told, problems.wrong, list(problems.summary())) == ([], False, [])


def test_an_entry_names_the_last_offset_of_its_batch(tmp_path: Path) -> None:
    """S7.2: each entry of an index is checked against the log."""
    log = made(tmp_path)
    path = log.with_suffix(".index")
    changed(path, INDEX_ENTRY, 1, 7, 2 * log.stat().st_size // 6)
    problems = dumped(path, DumpOptions(verify_only=True))[2]
    assert list(problems.summary()) == [f"Mismatches in :{path}", "  Index offset: 7, log offset: 8"]
    assert problems.wrong


def test_an_entry_for_several_old_messages_is_as_it_should_be(tmp_path: Path) -> None:
    """An old Kafka named the last message of an append, which is never before the position's."""
    path = tmp_path / f"{ZERO}.index"
    path.with_suffix(".log").write_bytes(b"".join(encode_entry(1, offset, 7, None, b"v") for offset in (4, 5, 6)))
    for named, wrong in ((6, False), (4, False), (3, True)):
        path.write_bytes(INDEX_ENTRY.pack(named, 0))
        problems = dumped(path)[2]
        assert problems.wrong is wrong
        assert len(list(problems.summary())) == (0 if named == 4 else 2)


def test_times_are_the_greatest_of_their_batch_and_rise(tmp_path: Path) -> None:
    path = made(tmp_path).with_suffix(".timeindex")
    changed(path, TIME_ENTRY, 2, 2500, 11)
    problems = dumped(path)[2]
    assert list(problems.summary()) == [
        f"Found timestamp mismatch in :{path}",
        "  Index timestamp: 2500, log timestamp: 4002",
        f"Found out of order timestamp in :{path}",
        "  Index timestamp: 2500, Previously indexed timestamp: 3002",
    ]
    assert problems.wrong


def test_an_offset_that_falls_is_looked_for_from_the_beginning(tmp_path: Path) -> None:
    path = made(tmp_path).with_suffix(".timeindex")
    changed(path, TIME_ENTRY, 1, 4002, 11)
    changed(path, TIME_ENTRY, 2, 3002, 8)
    assert list(dumped(path)[2].summary()) == [
        f"Found out of order timestamp in :{path}",
        "  Index timestamp: 3002, Previously indexed timestamp: 4002",
    ]


@pytest.mark.parametrize(("named", "log_offset", "wrong"), [(7, 8, False), (99, -1, True)])
def test_a_time_whose_offset_ends_no_batch(named: int, log_offset: int, wrong: bool, tmp_path: Path) -> None:
    """An offset within a batch, as in Kafka 2.8, is harmless; later entries are still found."""
    path = made(tmp_path).with_suffix(".timeindex")
    changed(path, TIME_ENTRY, 1, 3002, named)
    problems = dumped(path)[2]
    assert list(problems.summary()) == [
        f"The following indexed offsets are not found in :{path}",
        f"Indexed offset: {named}, found log offset: {log_offset}",
    ]
    assert problems.wrong is wrong


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_zeros_behind_the_entries_are_none(suffix: str, tmp_path: Path) -> None:
    path = made(tmp_path).with_suffix(suffix)
    before = dumped(path)[0]
    with path.open("ab") as file:
        file.write(bytes(120))
    lines, told, problems = dumped(path)
    assert (lines, told, problems.wrong) == (before, [], False)


def test_check_options_show_no_entries(tmp_path: Path) -> None:
    path = made(tmp_path).with_suffix(".index")
    assert dumped(path, DumpOptions(verify_only=True))[0] == []
    path.with_suffix(".log").unlink()  # a sanity check is about the index alone
    assert dumped(path, DumpOptions(sanity_only=True))[:2] == ([f"{path} passed sanity check."], [])
    assert dumped(path)[1] == [f"{path}: its entries can't be checked: there is no file {path.with_suffix('.log')}"]
