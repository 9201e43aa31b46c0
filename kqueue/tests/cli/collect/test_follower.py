from __future__ import annotations

import os
from pathlib import Path

import pytest

from kqueue.cli.collect.follower import ASIDE_S, KEPT_S
from kqueue.tests.cli.collect.following import LINE_BYTES_MAX, PARTIAL_S, Desk, copy_and_truncate, rotate, shift, write

LONG = [b"%060d" % number for number in range(20)]  # enough to know a file by


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "app.log"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path, "app.log")


def text(*lines: bytes) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def test_lines_say_where_they_stood(desk: Desk, log: Path) -> None:
    write(log, b"a\r\nbc\n\nd\n")
    lines = desk.look()
    assert [(line.value, line.offset, line.part) for line in lines] == [
        (b"a", 0, None),
        (b"bc", 3, None),
        (b"", 6, None),
        (b"d", 7, None),
    ]
    assert {(line.name, line.source) for line in lines} == {(str(log), "s1")}


def test_from_the_end(tmp_path: Path, log: Path) -> None:
    write(log, b"old\nbegun")
    desk = Desk(tmp_path, "*.log", from_end=True)
    assert desk.values() == []
    write(log, b" and ended\n")
    write(tmp_path / "new.log", b"x\n")
    assert sorted(desk.values()) == [b"begun and ended", b"x"]
    write(tmp_path / "while-away.log", b"y\n")
    desk.restart()
    assert desk.values() == [b"y"]


def test_a_pattern_that_is_new_at_a_restart_begins_at_the_end(tmp_path: Path, log: Path) -> None:
    desk = Desk(tmp_path, "app.log", from_end=True)
    desk.look()
    write(tmp_path / "other.log", b"old\n")
    desk.patterns.append(str(tmp_path / "other.log"))
    write(log, b"a\n")
    desk.restart()
    assert desk.values() == [b"a"]


def test_an_unfinished_line_is_held_back_for_a_while(desk: Desk, log: Path) -> None:
    write(log, b"a\nbeg")
    assert desk.values() == [b"a"]
    assert desk.follower.is_behind
    desk.wait(PARTIAL_S - 1)
    write(log, b"un")
    assert desk.values() == []
    desk.wait(PARTIAL_S - 1)
    assert desk.values() == []
    desk.wait(1)
    (line,) = desk.look()
    assert (line.value, line.offset, line.part) == (b"begun", 2, 0)
    desk.restart()
    write(log, b" rest\nb\n")
    assert [(line.value, line.part) for line in desk.look()] == [(b" rest", 1), (b"b", None)]
    assert not desk.follower.is_behind


def test_the_bare_end_of_a_line_that_was_given_is_no_line(desk: Desk, log: Path) -> None:
    write(log, b"begun")
    desk.look()
    desk.wait(PARTIAL_S)
    assert desk.values() == [b"begun"]
    write(log, b"\n")
    assert desk.values() == []
    write(log, b"\n")
    assert desk.values() == [b""]


def test_a_long_line_comes_in_parts(desk: Desk, log: Path) -> None:
    write(log, b"x" * (2 * LINE_BYTES_MAX + 1) + b"\ny\n")
    lines = desk.look()
    assert [(len(line.value), line.part) for line in lines] == [
        (LINE_BYTES_MAX, 0),
        (LINE_BYTES_MAX, 1),
        (1, 2),
        (1, None),
    ]


def test_rotation_with_a_new_file(desk: Desk, log: Path) -> None:
    write(log, b"a\nb\n")
    desk.scan()
    rotate(log)
    write(log.with_name("app.log.1"), b"late\n")  # by a writer that has not noticed yet
    write(log, b"c\n")
    assert desk.values() == [b"a", b"b", b"late", b"c"]
    assert [line.name for line in desk.look()] == []
    desk.wait(KEPT_S)
    desk.scan()
    assert desk.follower.count == 1


def test_copytruncate_with_lines_that_nobody_had_read(desk: Desk, log: Path) -> None:
    write(log, b"a\n")
    assert desk.values() == [b"a"]
    write(log, b"b\nc\n")
    copy_and_truncate(log)
    write(log, b"d\n" * 5)
    assert desk.values() == [b"b", b"c", *[b"d"] * 5]
    assert desk.told == []


def test_a_truncation_that_grew_past_the_position(desk: Desk, log: Path) -> None:
    write(log, text(*LONG[:3]))
    desk.values()
    os.truncate(log, 0)
    write(log, text(*LONG[3:]))
    assert desk.values() == LONG[3:]


def test_what_a_truncation_took_is_told(desk: Desk, log: Path) -> None:
    write(log, b"a\nb\nbegun")
    desk.values()
    os.truncate(log, 0)
    desk.scan()
    assert desk.told == [f"{log} was truncated; 5 bytes that had not been read are gone"]


def test_copies_that_a_pattern_matches_come_once(tmp_path: Path, log: Path) -> None:
    desk = Desk(tmp_path, "app.log*")
    write(log, text(*LONG[:3]))
    assert desk.values() == LONG[:3]
    copy = shift(log)
    write(copy, log.read_bytes()[:100])  # seen while it is being made
    assert desk.values() == []
    write(copy, log.read_bytes()[100:])
    desk.wait(ASIDE_S / 2)
    assert desk.values() == []
    os.truncate(log, 0)
    write(log, b"new\n")
    assert desk.values() == [b"new"]


def test_a_copy_that_stays_is_not_read_again(tmp_path: Path, log: Path) -> None:
    desk = Desk(tmp_path, "app.log*")
    write(log, text(*LONG))
    assert desk.values() == LONG
    write(log.with_name("app.log.1"), log.read_bytes())
    desk.scan()
    desk.wait(ASIDE_S)
    assert desk.values() == []
    assert desk.follower.count == 2


def test_a_short_file_that_looks_like_a_copy_comes_in_the_end(tmp_path: Path, log: Path) -> None:
    desk = Desk(tmp_path, "app.log*")
    write(log, b"started\n")
    assert desk.values() == [b"started"]
    write(log.with_name("app.log.1"), b"started\n")
    assert desk.values() == []
    desk.wait(ASIDE_S)
    assert desk.values() == [b"started"]


def test_two_rotations_at_once_are_seen_with_a_pattern(tmp_path: Path, log: Path) -> None:
    desk = Desk(tmp_path, "app.log*")
    write(log, b"a\n")
    desk.scan()
    rotate(log)
    write(log, b"b\n")
    rotate(log)
    write(log, b"c\n")
    assert sorted(desk.values()) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("way", [rotate, copy_and_truncate])
@pytest.mark.parametrize("count", [1, 20])
def test_rotation_while_nobody_looks(desk: Desk, log: Path, way: object, count: int) -> None:
    write(log, text(*LONG[:count]))
    assert len(desk.values()) == count
    desk.kill()
    write(log, b"while away\n")
    way(log)  # type: ignore[operator]
    write(log, b"new\n")
    desk.start()
    assert desk.values() == [b"while away", b"new"]
    assert desk.told == []


def test_a_file_that_was_not_found_again_is_told(desk: Desk, log: Path) -> None:
    write(log, b"a\n")
    desk.values()
    desk.kill()
    log.unlink()
    write(log, b"something else\n")
    desk.start()
    assert desk.values() == [b"something else"]
    assert desk.told == [f"{log} is another file now; the one before, read up to byte 2, was not found"]


def test_a_file_that_goes_and_comes_back(desk: Desk, log: Path) -> None:
    write(log, text(*LONG))
    assert desk.values() == LONG
    hidden = log.with_name("hidden")
    for restart in (False, True):
        log.rename(hidden)
        desk.scan()
        desk.wait(KEPT_S)
        desk.scan()
        assert desk.follower.count == 0
        if restart:
            desk.restart()
            desk.scan()
        write(hidden, b"more\n")
        hidden.rename(log)
        assert desk.values() == [b"more"]


def test_a_file_that_is_saved_by_an_editor(desk: Desk, log: Path) -> None:
    write(log, text(*LONG))
    assert desk.values() == LONG
    new = log.with_name("new")
    write(new, log.read_bytes() + b"more\n")
    new.replace(log)
    assert desk.values() == [b"more"]


def test_a_file_that_is_made_again_begins_anew(desk: Desk, log: Path) -> None:
    write(log, b"a\nrest without an end")
    assert desk.values() == [b"a"]
    log.unlink()
    desk.scan()
    write(log, b"a\n")
    assert desk.values() == [b"a"]
    desk.wait(PARTIAL_S)
    assert desk.values() == [b"rest without an end"]


def test_files_take_turns(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "*.log")
    for name in "ab":
        write(tmp_path / f"{name}.log", b"x\n" * 100)
    assert len({Path(line.name).name for _ in range(2) for line in desk.look(10)}) == 2


def test_a_file_that_can_t_be_read_is_told_once_and_read_later(
    desk: Desk, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(log, b"a\n")
    real = os.open

    def refuse(path: object, *more: object, **named: object) -> int:
        if path == str(log):
            raise PermissionError(13, "Permission denied")
        return real(path, *more, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        assert desk.values() == desk.values() == []
    assert desk.told == [f"{log} can't be read: Permission denied; it is tried again and again"]
    assert desk.values() == [b"a"]


def test_a_name_that_matches_nothing_is_told(desk: Desk, log: Path) -> None:
    desk.follower.tell_if_nothing()
    assert desk.told == [f"no file {log} yet"]
