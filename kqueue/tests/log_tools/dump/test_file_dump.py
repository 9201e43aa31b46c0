from __future__ import annotations

from pathlib import Path

import pytest

from kqueue.log_tools.dump import DumpOptions
from kqueue.records.batch import BATCH_OVERHEAD
from kqueue.tests.log.helpers import batch
from kqueue.tests.log_tools.damage import flip
from kqueue.tests.log_tools.dump.sample_logs import ZERO, dumped, made, made_with_transactions

DEEP = DumpOptions(records=True)


def test_the_end_of_the_name_says_how_a_file_is_read(tmp_path: Path) -> None:
    """S7.2: each file of a segment is dumped in its format; a valid one has no problems."""
    folder = made_with_transactions(tmp_path)
    firsts = {path.suffix: dumped(path) for path in folder.iterdir() if path.suffix}
    assert {suffix: lines[0].partition(":")[0] for suffix, (lines, _, _) in firsts.items()} == {
        ".log": "Log starting offset",
        ".index": f"{folder / ZERO}.index is empty.",
        ".timeindex": "timestamp",
        ".txnindex": "version",
        ".snapshot": "producerId",
    }
    assert all(told == [] and not problems.wrong for _, told, problems in firsts.values())


@pytest.mark.parametrize("name", [f"{ZERO}.log", f"{ZERO}.snapshot", "x.index"])
def test_a_file_that_can_not_be_read_is_told_and_not_raised(name: str, tmp_path: Path) -> None:
    _, told, problems = dumped(tmp_path / name)
    assert len(told) == 1
    assert problems.wrong


def test_a_snapshot_of_metadata_tells_its_end_from_its_name(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000012-0000000003.checkpoint"
    path.write_bytes(batch(b"a"))
    assert dumped(path)[0][0] == "Snapshot end offset: 12, epoch: 3"


def test_a_batch_that_can_not_be_read_does_not_hide_the_next(tmp_path: Path) -> None:
    """S7.2: a damaged batch has its own line, and the others have all their records."""
    path = made(tmp_path, count=3)
    flip(path, path.stat().st_size // 3 + BATCH_OVERHEAD, 0xFF)  # the length of the second batch's first record
    lines, told, problems = dumped(path, DEEP)
    assert [line.split()[2] for line in lines if line.startswith("| ")] == ["0", "1", "2", "6", "7", "8"]
    assert sum(line.startswith("baseOffset: ") for line in lines) == 3
    assert told[0].startswith(f"{path}, position {path.stat().st_size // 3}: expected checksum ")
    assert len(told) == 2
    assert list(problems.summary()) == [f"Non-consecutive offsets in {path}", "  2 is followed by 6"]


def test_offsets_left_out_are_listed_and_offsets_that_fall_are_wrong(tmp_path: Path) -> None:
    path = tmp_path / f"{ZERO}.log"
    path.write_bytes(batch(b"a", base_offset=0) + batch(b"b", base_offset=5))
    problems = dumped(path, DEEP)[2]
    assert list(problems.summary()) == [f"Non-consecutive offsets in {path}", "  0 is followed by 5"]
    assert not problems.wrong
    path.write_bytes(batch(b"a", base_offset=0) + batch(b"b", base_offset=0))
    assert dumped(path, DEEP)[2].wrong


def test_a_tail_is_damage_only_where_the_whole_log_is_read(tmp_path: Path) -> None:
    path = made(tmp_path, count=2)
    half = path.stat().st_size // 2
    with path.open("ab") as file:
        file.write(bytes(9))
    lines, told, problems = dumped(path)
    assert lines[-1] == f"Found 9 invalid bytes at the end of {ZERO}.log"
    assert told[0].startswith(f"{path}, position {2 * half}: expected a batch, ")
    assert problems.wrong
    lines, told, problems = dumped(path, DumpOptions(max_bytes=half + 1))
    assert (len(lines), told, problems.wrong) == (2, [], False)
