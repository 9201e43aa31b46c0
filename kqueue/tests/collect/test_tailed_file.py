"""One followed file: positions, parts of lines, and the detection of a replaced content."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kqueue.collect.tailed_file import Line, ReadPosition, TailedFile

LINE_BYTES_MAX = 64


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\ntwo\n")
    return path


@pytest.fixture
def tailed(path: Path) -> Iterator[TailedFile]:
    tailed = TailedFile.open(str(path), "s1")
    assert tailed.look(now_s=1.0)
    yield tailed
    tailed.close()


def read(tailed: TailedFile, *, take_unfinished: bool = False) -> list[Line]:
    return tailed.read(LINE_BYTES_MAX, 100, 10_000, take_unfinished=take_unfinished)


def test_lines_have_the_files_first_name_and_their_offset(tailed: TailedFile, path: Path) -> None:
    tailed.path = f"{path}.1"
    assert read(tailed) == [Line(b"one", str(path), "s1", 0, None), Line(b"two", str(path), "s1", 4, None)]
    assert (tailed.unread, read(tailed)) == (0, [])


def test_commit_confirms_what_was_read(tailed: TailedFile) -> None:
    read(tailed)
    assert tailed.confirmed == ReadPosition()
    tailed.commit()
    assert tailed.confirmed == tailed.position_read
    assert tailed.confirmed.fingerprint.offset == 8


def test_an_unfinished_line_is_returned_on_request_and_continued_in_parts(tailed: TailedFile, path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"begun")
    tailed.look(2.0)
    assert [line.value for line in read(tailed)] == [b"one", b"two"]
    assert [(line.value, line.part) for line in read(tailed, take_unfinished=True)] == [(b"begun", 0)]
    with path.open("ab") as file:
        file.write(b" and ended\n")
    tailed.look(3.0)
    assert [(line.value, line.part, line.offset) for line in read(tailed)] == [(b" and ended", 1, 13)]


def test_the_time_of_growth_is_kept(tailed: TailedFile, path: Path) -> None:
    tailed.look(5.0)
    assert tailed.grew_s == 1.0
    with path.open("ab") as file:
        file.write(b"three\n")
    tailed.look(6.0)
    assert (tailed.grew_s, tailed.size) == (6.0, 14)


@pytest.mark.parametrize("content", [b"", b"one\n", b"ONE\ntwo\nthree\n"])
def test_a_truncated_or_rewritten_file_is_detected_and_begins_again(
    tailed: TailedFile, path: Path, content: bytes
) -> None:
    read(tailed)
    path.write_bytes(content)
    assert not tailed.look(2.0)
    tailed.restart("s2")
    assert tailed.look(3.0)
    assert [(line.value, line.source) for line in read(tailed)] == [(line, "s2") for line in content.splitlines()]


def test_a_copy_begins_like_its_original(tailed: TailedFile, path: Path, tmp_path: Path) -> None:
    (tmp_path / "same").write_bytes(b"one\ntwo\nthree\n")
    (tmp_path / "other").write_bytes(b"one\nTWO\n")
    assert tailed.begins_like(str(tmp_path / "same"))
    assert not tailed.begins_like(str(tmp_path / "other"))
    assert not tailed.begins_like(str(tmp_path / "missing"))
