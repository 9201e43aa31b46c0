from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from kqueue.collect import file_discovery, tailed_file
from kqueue.collect.file_tailer import COPY_GRACE_S, LINGER_S
from kqueue.tests.collect.tailer_harness import (
    LINE_BYTES_MAX,
    PARTIAL_S,
    TailerHarness,
    copy_and_truncate,
    rotate,
    shift,
    write,
)

LONG = [b"%060d" % number for number in range(20)]  # enough to know a file by


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "app.log"


@pytest.fixture
def harness(tmp_path: Path) -> TailerHarness:
    return TailerHarness(tmp_path, "app.log")


def text(*lines: bytes) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def test_lines_say_where_they_stood(harness: TailerHarness, log: Path) -> None:
    write(log, b"a\r\nbc\n\nd\n")
    lines = harness.look()
    assert [(line.value, line.offset, line.part) for line in lines] == [
        (b"a", 0, None),
        (b"bc", 3, None),
        (b"", 6, None),
        (b"d", 7, None),
    ]
    assert {(line.name, line.source) for line in lines} == {(str(log), "s1")}


def test_from_the_end(tmp_path: Path, log: Path) -> None:
    write(log, b"old\nbegun")
    harness = TailerHarness(tmp_path, "*.log", from_end=True)
    assert harness.values() == []
    write(log, b" and ended\n")
    write(tmp_path / "new.log", b"x\n")
    assert sorted(harness.values()) == [b"begun and ended", b"x"]
    write(tmp_path / "while-away.log", b"y\n")
    harness.restart()
    assert harness.values() == [b"y"]


def test_a_pattern_that_is_new_at_a_restart_begins_at_the_end(tmp_path: Path, log: Path) -> None:
    harness = TailerHarness(tmp_path, "app.log", from_end=True)
    harness.look()
    write(tmp_path / "other.log", b"old\n")
    harness.patterns.append(str(tmp_path / "other.log"))
    write(log, b"a\n")
    harness.restart()
    assert harness.values() == [b"a"]


def test_an_unfinished_line_is_held_back_for_a_while(harness: TailerHarness, log: Path) -> None:
    write(log, b"a\nbeg")
    assert harness.values() == [b"a"]
    assert harness.tailer.is_behind
    harness.wait(PARTIAL_S - 1)
    write(log, b"un")
    assert harness.values() == []
    harness.wait(PARTIAL_S - 1)
    assert harness.values() == []
    harness.wait(1)
    (line,) = harness.look()
    assert (line.value, line.offset, line.part) == (b"begun", 2, 0)
    harness.restart()
    write(log, b" rest\nb\n")
    assert [(line.value, line.part) for line in harness.look()] == [(b" rest", 1), (b"b", None)]
    assert not harness.tailer.is_behind


def test_the_bare_end_of_a_line_that_was_given_is_no_line(harness: TailerHarness, log: Path) -> None:
    write(log, b"begun")
    harness.look()
    harness.wait(PARTIAL_S)
    assert harness.values() == [b"begun"]
    write(log, b"\n")
    assert harness.values() == []
    write(log, b"\n")
    assert harness.values() == [b""]


def test_a_long_line_comes_in_parts(harness: TailerHarness, log: Path) -> None:
    write(log, b"x" * (2 * LINE_BYTES_MAX + 1) + b"\ny\n")
    lines = harness.look()
    assert [(len(line.value), line.part) for line in lines] == [
        (LINE_BYTES_MAX, 0),
        (LINE_BYTES_MAX, 1),
        (1, 2),
        (1, None),
    ]


def test_rotation_with_a_new_file(harness: TailerHarness, log: Path) -> None:
    write(log, b"a\nb\n")
    harness.scan()
    rotate(log)
    write(log.with_name("app.log.1"), b"late\n")  # by a writer that has not noticed yet
    write(log, b"c\n")
    assert harness.values() == [b"a", b"b", b"late", b"c"]
    assert [line.name for line in harness.look()] == []
    harness.wait(LINGER_S)
    harness.scan()
    assert harness.tailer.count == 1


def test_copytruncate_with_lines_that_nobody_had_read(harness: TailerHarness, log: Path) -> None:
    write(log, b"a\n")
    assert harness.values() == [b"a"]
    write(log, b"b\nc\n")
    copy_and_truncate(log)
    write(log, b"d\n" * 5)
    assert harness.values() == [b"b", b"c", *[b"d"] * 5]
    assert harness.told == []


def test_a_truncation_that_grew_past_the_position(harness: TailerHarness, log: Path) -> None:
    write(log, text(*LONG[:3]))
    harness.values()
    os.truncate(log, 0)
    write(log, text(*LONG[3:]))
    assert harness.values() == LONG[3:]


def test_bytes_lost_to_a_truncation_are_reported(harness: TailerHarness, log: Path) -> None:
    write(log, b"a\nb\nbegun")
    harness.values()
    os.truncate(log, 0)
    harness.scan()
    assert harness.told == [f"{log} was truncated; 5 bytes that had not been read are gone"]


def test_copies_that_a_pattern_matches_come_once(tmp_path: Path, log: Path) -> None:
    harness = TailerHarness(tmp_path, "app.log*")
    write(log, text(*LONG[:3]))
    assert harness.values() == LONG[:3]
    copy = shift(log)
    write(copy, log.read_bytes()[:100])  # seen while it is being made
    assert harness.values() == []
    write(copy, log.read_bytes()[100:])
    harness.wait(COPY_GRACE_S / 2)
    assert harness.values() == []
    os.truncate(log, 0)
    write(log, b"new\n")
    assert harness.values() == [b"new"]


@pytest.mark.parametrize("count", [2, 12])
def test_a_copy_of_lines_that_were_never_seen_is_read(tmp_path: Path, log: Path, count: int) -> None:
    """The original was empty at the last scan before, and is empty again."""
    harness = TailerHarness(tmp_path, "app.log*")
    log.touch()
    assert harness.values() == []
    lines = [b"%050d" % number for number in range(count)]
    write(log, b"".join(line + b"\n" for line in lines))
    copy_and_truncate(log)
    assert harness.values() == lines
    harness.wait(COPY_GRACE_S + 1)
    assert harness.values() == []


def test_a_removed_empty_file_takes_no_position_of_another(tmp_path: Path, log: Path) -> None:
    """Its saved position is 0, and every file has the bytes before that; a fresh rotated file may
    be its copy, but not one with a position of its own.
    """
    harness = TailerHarness(tmp_path, "app.log")
    log.touch()
    harness.look()
    log.unlink()
    harness.look()
    write(log, b"one\ntwo\n")
    harness.scan()
    rotate(log)
    assert harness.values() == [b"one", b"two"]
    os.utime(log.with_name("app.log.1"))  # no older than the saved state
    harness.restart()
    assert harness.values() == []


def test_a_copy_belongs_to_the_position_whose_bytes_it_has(tmp_path: Path, log: Path) -> None:
    harness = TailerHarness(tmp_path, "app.log")
    log.touch()
    harness.look()
    log.unlink()
    write(log, b"one\n")
    assert harness.values() == [b"one"]
    copy_and_truncate(log)
    os.utime(log.with_name("app.log.1"))
    harness.restart()
    assert harness.values() == []


def test_an_unread_file_is_found_after_two_rotations_and_restarts(harness: TailerHarness, log: Path) -> None:
    write(log, b"one\n")
    for _ in range(2):
        harness.scan()
        rotate(log)
        harness.restart()
    assert harness.values() == [b"one"]


def test_a_copy_that_stays_is_not_read_again(tmp_path: Path, log: Path) -> None:
    harness = TailerHarness(tmp_path, "app.log*")
    write(log, text(*LONG))
    assert harness.values() == LONG
    write(log.with_name("app.log.1"), log.read_bytes())
    harness.scan()
    harness.wait(COPY_GRACE_S)
    assert harness.values() == []
    assert harness.tailer.count == 2


def test_a_short_file_that_looks_like_a_copy_comes_in_the_end(tmp_path: Path, log: Path) -> None:
    harness = TailerHarness(tmp_path, "app.log*")
    write(log, b"started\n")
    assert harness.values() == [b"started"]
    write(log.with_name("app.log.1"), b"started\n")
    assert harness.values() == []
    harness.wait(COPY_GRACE_S)
    assert harness.values() == [b"started"]


def test_two_rotations_at_once_are_seen_with_a_pattern(tmp_path: Path, log: Path) -> None:
    harness = TailerHarness(tmp_path, "app.log*")
    write(log, b"a\n")
    harness.scan()
    rotate(log)
    write(log, b"b\n")
    rotate(log)
    write(log, b"c\n")
    assert sorted(harness.values()) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("way", [rotate, copy_and_truncate])
@pytest.mark.parametrize("count", [1, 20])
def test_rotation_while_nobody_looks(harness: TailerHarness, log: Path, way: object, count: int) -> None:
    write(log, text(*LONG[:count]))
    assert len(harness.values()) == count
    harness.kill()
    write(log, b"while away\n")
    way(log)  # type: ignore[operator]
    write(log, b"new\n")
    harness.start()
    assert harness.values() == [b"while away", b"new"]
    assert harness.told == []


def test_a_file_that_was_not_found_again_is_told(harness: TailerHarness, log: Path) -> None:
    write(log, b"a\n")
    harness.values()
    harness.kill()
    log.unlink()
    write(log, b"something else\n")
    harness.start()
    assert harness.values() == [b"something else"]
    assert harness.told == [f"{log} is another file now; the one before, read up to byte 2, was not found"]


def test_a_file_that_goes_and_comes_back(harness: TailerHarness, log: Path) -> None:
    write(log, text(*LONG))
    assert harness.values() == LONG
    hidden = log.with_name("hidden")
    for restart in (False, True):
        log.rename(hidden)
        harness.scan()
        harness.wait(LINGER_S)
        harness.scan()
        assert harness.tailer.count == 0
        if restart:
            harness.restart()
            harness.scan()
        write(hidden, b"more\n")
        hidden.rename(log)
        assert harness.values() == [b"more"]


def test_a_file_that_is_saved_by_an_editor(harness: TailerHarness, log: Path) -> None:
    write(log, text(*LONG))
    assert harness.values() == LONG
    new = log.with_name("new")
    write(new, log.read_bytes() + b"more\n")
    new.replace(log)
    assert harness.values() == [b"more"]


def test_a_file_that_is_made_again_begins_anew(harness: TailerHarness, log: Path) -> None:
    write(log, b"a\nrest without an end")
    assert harness.values() == [b"a"]
    log.unlink()
    harness.scan()
    write(log, b"a\n")
    assert harness.values() == [b"a"]
    harness.wait(PARTIAL_S)
    assert harness.values() == [b"rest without an end"]


def test_files_take_turns(tmp_path: Path) -> None:
    harness = TailerHarness(tmp_path, "*.log")
    for name in "ab":
        write(tmp_path / f"{name}.log", b"x\n" * 100)
    assert len({Path(line.name).name for _ in range(2) for line in harness.look(10)}) == 2


def test_a_file_that_can_t_be_read_is_told_once_and_read_later(
    harness: TailerHarness, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(log, b"a\n")
    real = os.open

    def refuse(path: object, *more: object, **named: object) -> int:
        if path == str(log):
            raise PermissionError(13, "Permission denied")
        return real(path, *more, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        assert harness.values() == harness.values() == []
    assert harness.told == [f"{log} can't be read: Permission denied; it is tried again and again"]
    assert harness.values() == [b"a"]


def test_a_name_that_matches_nothing_is_told(harness: TailerHarness, log: Path) -> None:
    harness.tailer.report_unmatched_patterns()
    assert harness.told == [f"no file {log} yet"]


MANY = [b"%040d" % number for number in range(40)]  # 1640 bytes
FEW = [b"started", b"listening"]


def write_anew(path: Path, content: bytes, *, inode: str) -> None:
    """Remove a file and write it; `inode`: `reused` as ext4 does it at once, or `other`.

    tmpfs and overlays may not reuse it at once, so files are made until one has it, or none does.
    """
    before = path.stat().st_ino
    spare: list[Path] = []
    if inode == "other":
        new = path.with_name("new")
        new.write_bytes(content)
        new.replace(path)
    else:
        path.unlink()
        for number in range(200):
            path.write_bytes(content)
            if path.stat().st_ino == before:
                break
            spare.append(path.rename(path.with_name(f"spare-{number}")))
        else:
            pytest.skip("this file system does not reuse inodes soon")
    for other in spare:
        other.unlink()
    assert (path.stat().st_ino == before) == (inode == "reused")


@pytest.mark.parametrize("inode", ["reused", "other"])
@pytest.mark.parametrize(
    ("old", "new", "sent"),
    [
        pytest.param(FEW, [*FEW, b"one", b"two"], [*FEW, b"one", b"two"], id="few, longer"),
        pytest.param(FEW, FEW, FEW, id="few, equal"),
        pytest.param(FEW, FEW[:1], FEW[:1], id="few, shorter"),
        pytest.param(FEW, [FEW[0], b"LISTENING", b"one"], [FEW[0], b"LISTENING", b"one"], id="few, other later ones"),
        pytest.param(MANY, MANY[:-5], MANY[:-5], id="many, shorter"),
        pytest.param(MANY, [*MANY[:-1], b"other"], [*MANY[:-1], b"other"], id="many, another last line"),
        pytest.param(
            MANY,
            [*MANY[:20], b"x" * 40, *MANY[21:], b"more"],
            [*MANY[:20], b"x" * 40, *MANY[21:], b"more"],
            id="many, another line in the middle",
        ),
        pytest.param(MANY, [*MANY, b"more"], [b"more"], id="many, longer: the lines that were sent are all there"),
        pytest.param(MANY, MANY, [], id="many, equal"),
    ],
)
def test_a_file_written_again_while_nobody_looks_continues_only_by_its_content(
    harness: TailerHarness, log: Path, inode: str, old: list[bytes], new: list[bytes], sent: list[bytes]
) -> None:
    write(log, text(*old))
    assert harness.values() == old
    harness.kill()
    time.sleep(0.01)  # the kernel's file times advance in steps
    write_anew(log, text(*new), inode=inode)
    harness.start()
    assert harness.values() == sent


@pytest.mark.parametrize(
    ("old", "new", "sent"),
    [
        (FEW, [FEW[0]], [FEW[0]]),
        (FEW, [FEW[0], b"LISTENING", b"one"], [FEW[0], b"LISTENING", b"one"]),
        (MANY, [*MANY[:20], b"x" * 40, *MANY[21:]], [*MANY[:20], b"x" * 40, *MANY[21:]]),
        (FEW, [*FEW, b"one"], [b"one"]),  # no trace distinguishes this from added lines
    ],
)
def test_a_file_truncated_while_nobody_looks_continues_only_by_its_content(
    harness: TailerHarness, log: Path, old: list[bytes], new: list[bytes], sent: list[bytes]
) -> None:
    write(log, text(*old))
    assert harness.values() == old
    harness.kill()
    os.truncate(log, 0)
    write(log, text(*new))
    harness.start()
    assert harness.values() == sent


def test_a_file_restored_with_its_times_continues(harness: TailerHarness, log: Path, tmp_path: Path) -> None:
    write(log, text(*FEW))
    assert harness.values() == FEW
    harness.kill()
    shutil.copy2(log, tmp_path / "saved")
    log.unlink()
    shutil.copy2(tmp_path / "saved", log)
    harness.start()
    assert harness.values() == []
    write(log, b"one\n")
    assert harness.values() == [b"one"]


def test_a_rotated_file_whose_successor_begins_alike_is_read_to_its_end(harness: TailerHarness, log: Path) -> None:
    write(log, text(*FEW))
    assert harness.values() == FEW
    harness.kill()
    write(log, b"late\n")
    rotate(log)
    write(log, text(*FEW, b"one"))
    harness.start()
    assert harness.values() == [b"late", *FEW, b"one"]


def test_a_short_file_on_a_renumbered_device_continues(
    harness: TailerHarness, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(log, text(*FEW))
    assert harness.values() == FEW
    harness.kill()
    real = file_discovery.id_of
    for module in (file_discovery, tailed_file):
        monkeypatch.setattr(module, "id_of", lambda status: (real(status)[0] + 1, real(status)[1]))
    write(log, b"one\n")
    harness.start()
    assert harness.values() == [b"one"]


def test_a_file_of_a_state_without_birth_time_and_prefix_continues(harness: TailerHarness, log: Path) -> None:
    write(log, text(*FEW))
    assert harness.values() == FEW
    harness.kill()
    state = json.loads(harness.state.path.read_bytes())
    for row in state["files"]:
        for name in ("prefix", "born_ns", "modified_ns"):
            del row[name]
    harness.state.path.write_text(json.dumps(state))
    write(log, b"one\n")
    harness.start()
    assert harness.values() == [b"one"]


def test_a_file_that_differs_from_its_rotated_neighbour_only_in_the_middle_is_no_copy(
    tmp_path: Path, log: Path
) -> None:
    harness = TailerHarness(tmp_path, "app.log*")
    write(log, text(*MANY))
    assert harness.values() == MANY
    other = [*MANY[:20], b"x" * 40, *MANY[21:]]
    write(log.with_name("app.log.1"), text(*other))
    harness.values()
    harness.wait(COPY_GRACE_S)
    assert harness.values() == other
