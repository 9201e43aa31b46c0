from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kqueue.collect.fingerprint import (
    DISTINCTIVE_BYTES,
    FINGERPRINT_BYTES,
    FileFingerprint,
    fingerprint_at,
    last_line_end,
)
from kqueue.tests.thorough import examples


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    opened = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
    yield opened
    os.close(opened)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(50))
@given(st.lists(st.binary(max_size=400), max_size=5), st.binary(max_size=10))
def test_moved_bit_by_bit_it_is_what_the_file_says(file: int, parts: list[bytes], rest: bytes) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, b"".join(parts) + rest, 0)
    mark = FileFingerprint()
    for part in parts:
        mark = mark.moved(part)
    assert mark == fingerprint_at(file, mark.offset)
    assert mark.holds_in(file)
    assert mark.print().find_in(file) == mark


def test_other_bytes_are_found_at_both_ends(file: int) -> None:
    text = bytes(range(256)) * 4
    os.pwrite(file, text, 0)
    mark = fingerprint_at(file, len(text))
    for place in (0, FINGERPRINT_BYTES - 1, len(text) - FINGERPRINT_BYTES, len(text) - 1):
        os.pwrite(file, b"?", place)
        assert not mark.holds_in(file) or text[place] == ord("?")
        assert mark.print().find_in(file) is None
        os.pwrite(file, text[place : place + 1], place)
    assert mark.holds_in(file)
    os.ftruncate(file, len(text) - 1)
    assert not mark.holds_in(file)
    assert fingerprint_at(file, len(text)) == FileFingerprint()


def test_fingerprint_does_not_reveal_logged_text(file: int) -> None:
    os.pwrite(file, b"password=swordfish\n", 0)
    assert "swordfish" not in str(fingerprint_at(file, 19).print())


def test_short_contents_tell_nothing(file: int) -> None:
    os.ftruncate(file, DISTINCTIVE_BYTES)
    assert not fingerprint_at(file, DISTINCTIVE_BYTES - 1).is_distinctive
    assert fingerprint_at(file, DISTINCTIVE_BYTES).is_distinctive


@pytest.mark.parametrize(
    ("text", "back", "end"), [(b"", 9, 0), (b"a\nb", 9, 2), (b"abc", 9, 0), (b"a\nbcdef", 3, 7), (b"a\n", 9, 2)]
)
def test_last_line_end_is_found(file: int, text: bytes, back: int, end: int) -> None:
    os.pwrite(file, text, 0)
    assert last_line_end(file, len(text), back) == end
