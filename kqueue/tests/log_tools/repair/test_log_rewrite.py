"""S3.6: what a log file loses, which headers are corrected, and the replacement of the file."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.log.formats.filenames import INDEX, LOG, TIMEINDEX, file_name
from kqueue.log_tools.repair import log_rewrite
from kqueue.log_tools.repair.log_rewrite import LogRewrite, LostRange, apply_rewrite, plan_rewrite
from kqueue.records.batch import iter_batches
from kqueue.storage import MemoryStorage, Storage
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.tests.log_tools.logs import FOLDER, content, made, names, replace
from kqueue.tests.tables import for_each

FIRST = file_name(0, LOG)


def starts(data: bytes) -> list[int]:
    """Return the position of each batch, and the end of the last one."""
    return [*(position for position, _ in iter_batches(data)), len(data)]


def with_flipped(data: bytes, *positions: int) -> bytes:
    changed = bytearray(data)
    for position in positions:
        changed[position] ^= 1
    return bytes(changed)


def plan(storage: Storage, base: int = 0) -> LogRewrite:
    """Return the rewrite of one of the existing segments."""
    bases = sorted(int(entry.name[:20]) for entry in storage.list(FOLDER) if entry.name.endswith(LOG))
    return plan_rewrite(storage, FOLDER, base, dict(pairwise(bases)).get(base), base)


def test_a_valid_file_is_unchanged() -> None:
    storage, _ = made()
    for name in names(storage):
        cut = plan(storage, int(name[:20]))
        assert not cut.is_needed
        assert cut.kept == [(0, len(content(storage, name)))]
    assert cut.end_offset == 36


def test_a_damaged_batch_and_the_indexes_are_removed() -> None:
    storage, _ = made()
    data = content(storage, FIRST)
    at = starts(data)
    replace(storage, FIRST, with_flipped(data, at[1] + 70))
    cut = plan(storage)
    (lost,) = cut.lost
    assert lost[:5] == (f"{FOLDER}/{FIRST}", at[1], at[2] - at[1], 3, 6)
    assert cut.kept == [(0, at[1]), (at[2], len(data))]
    apply_rewrite(storage, FOLDER, cut)
    assert content(storage, FIRST) == data[: at[1]] + data[at[2] :]
    left = {entry.name for entry in storage.list(FOLDER)}
    assert left.isdisjoint({file_name(0, INDEX), file_name(0, TIMEINDEX), FIRST + ".tmp"})
    assert file_name(9, INDEX) in left


def test_an_interrupted_repair_is_resumed() -> None:
    storage, _ = made()
    data = content(storage, FIRST)
    replace(storage, FIRST, data + b"junk")
    replace(storage, FIRST + ".tmp", b"longer than it was" * 100)
    apply_rewrite(storage, FOLDER, plan(storage))
    assert content(storage, FIRST) == data


@pytest.mark.parametrize("chunk_bytes", [61, 100, log_rewrite.CHUNK_BYTES])
def test_a_header_is_corrected_from_adjacent_batches(monkeypatch: pytest.MonkeyPatch, chunk_bytes: int) -> None:
    """A header is corrected once, for each way in which the file is copied in chunks."""
    monkeypatch.setattr(log_rewrite, "CHUNK_BYTES", chunk_bytes)
    storage, _ = made()
    data = content(storage, FIRST)
    at = starts(data)
    replace(storage, FIRST, with_flipped(data, at[1] + 6))  # a base offset, which no checksum covers
    cut = plan(storage)
    assert cut.lost == []
    assert cut.header_fixes == {at[1]: (3, 0)}
    apply_rewrite(storage, FOLDER, cut)
    assert content(storage, FIRST) == data


def test_adjacent_lost_ranges_share_the_missing_offsets() -> None:
    storage, _ = made()
    data = content(storage, FIRST)
    at = starts(data)
    replace(
        storage, FIRST, with_flipped(data, at[0] + 70, at[1] + 6)
    )  # the second is whole, and has another base offset
    lost = plan(storage).lost
    assert [(one.position, one.first_offset, one.end_offset) for one in lost] == [(at[0], 0, 6), (at[1], 6, 6)]
    assert "offsets 0 to 5, " in str(lost[0])
    assert "no offsets, " in str(lost[1])


def test_the_end_offset_of_a_damaged_tail_is_unknown() -> None:
    storage, _ = made()
    name = names(storage)[-1]
    base = int(name[:20])
    replace(storage, name, content(storage, name)[:-1])
    cut = plan(storage, base)
    assert [one.end_offset for one in cut.lost] == [None]
    assert cut.end_offset == 33
    assert "what followed offset 32" in str(cut.lost[0])


def test_a_single_lost_offset_is_reported_as_one() -> None:
    assert (
        str(LostRange("f.log", 5, 80, 7, 8, "a", "b"))
        == "f.log at position 5: offset 7, 80 bytes (expected a, found b)"
    )


def test_a_file_of_another_name_is_refused_and_not_emptied() -> None:
    storage, _ = made()
    replace(storage, file_name(9, LOG), content(storage, FIRST))
    with pytest.raises(StorageFailed, match=r"00009\.log holds offsets 0 to 2 at position 0, .* rename it"):
        plan(storage, 9)


@for_each("remains", Remains)
def test_power_cut_at_every_step(remains: Remains) -> None:
    """S5.3: the old file or the new one, complete; never the new one with the old one's indexes."""
    source, _ = made()
    data = content(source, FIRST)
    at = starts(data)
    old, new = with_flipped(data, at[1] + 70), data[: at[1]] + data[at[2] :]
    seen = set()
    for number in range(1, 100):
        disk = _on_disk(source, old, number)
        try:
            apply_rewrite(disk, FOLDER, plan(disk))
            break
        except PowerCut:
            remain = [
                disk.after_cut(remains, random.Random(seed)) for seed in range(50 if remains is Remains.TORN else 1)
            ]
        for after in remain:
            log_bytes = after.read(f"{FOLDER}/{FIRST}")
            seen.add(log_bytes)
            assert log_bytes in (old, new)
            assert log_bytes == old or not any(
                after.exists(f"{FOLDER}/{file_name(0, suffix)}") for suffix in (INDEX, TIMEINDEX)
            )
    assert number > 6
    assert old in seen
    assert disk.after_cut(Remains.LOST, random.Random(1)).read(f"{FOLDER}/{FIRST}") == new, "durable on return"


def _on_disk(source: MemoryStorage, first_log: bytes, cut_at: int) -> FaultyStorage:
    """Return the files with the first log replaced, all durable; a power cut follows."""
    disk = FaultyStorage()
    disk.make_folder(FOLDER)
    for entry in source.list(FOLDER):
        disk.write_atomic(f"{FOLDER}/{entry.name}", first_log if entry.name == FIRST else content(source, entry.name))
    for folder in ("", FOLDER):
        disk.sync_folder(folder)
    disk.cut_at = len(disk.steps) + cut_at
    return disk
