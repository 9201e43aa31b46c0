from __future__ import annotations

import logging
import random

import pytest

from kqueue.base.errors import DiskFull
from kqueue.log.folders.registration_mark import (
    REGISTRATION_MARK,
    Comparison,
    RegistrationMark,
    RegistrationStamp,
    compare_marks,
    read_registration_mark,
    write_registration_mark,
)
from kqueue.storage.memory import MemoryStorage
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.tests.tables import for_each

FIRST, SECOND, THIRD = (RegistrationStamp(epoch, f"stamp-{epoch}") for epoch in (3, 5, 8))
RENEWED = RegistrationStamp(FIRST.epoch, "renewed", 1)
FULL = RegistrationMark(FIRST, SECOND)


def no_room() -> bool:
    return False


@for_each("mark", [FULL, RegistrationMark(FIRST), RegistrationMark(None, SECOND), RegistrationMark()])
def test_a_mark_that_is_read_is_the_one_written(mark: RegistrationMark) -> None:
    storage = MemoryStorage()
    write_registration_mark(storage, mark, no_room)
    assert read_registration_mark(storage) == mark


def test_a_folder_without_a_mark_took_part_in_nothing() -> None:
    assert read_registration_mark(MemoryStorage()) == RegistrationMark()


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b'{"version":1,"committed":null,"pending":null}', b'{"version":0,"committed":[1],"pending":0}'],
)
def test_a_damaged_mark_is_none_and_one_line_says_so(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    storage = MemoryStorage()
    storage.write_atomic(REGISTRATION_MARK, data)
    with caplog.at_level(logging.ERROR):
        assert read_registration_mark(storage) == RegistrationMark()
    assert len(caplog.messages) == 1
    assert f"{REGISTRATION_MARK} can't be read" in caplog.text


@for_each("remains", Remains)
def test_a_power_cut_in_a_write_leaves_the_old_mark_or_the_new_one(remains: Remains) -> None:
    for cut_at in range(1, 8):
        storage = FaultyStorage()
        write_registration_mark(storage, RegistrationMark(FIRST), no_room)
        storage.cut_at = len(storage.steps) + cut_at
        try:
            write_registration_mark(storage, FULL, no_room)
        except PowerCut:
            after = storage.after_cut(remains, random.Random(cut_at))
            assert read_registration_mark(after) in (RegistrationMark(FIRST), FULL)
        else:
            storage.cut_at = None
            assert read_registration_mark(storage.after_cut(remains, random.Random(0))) == FULL
            assert cut_at > 1
            return
    raise AssertionError("a write has fewer steps")


def test_a_full_disk_gets_room_for_the_mark() -> None:
    class FullStorage(MemoryStorage):
        is_full = True

        def write_atomic(self, path: str, data: bytes) -> None:
            if self.is_full:
                raise DiskFull("full")
            super().write_atomic(path, data)

    storage = FullStorage()
    with pytest.raises(DiskFull):
        write_registration_mark(storage, FULL, no_room)

    def make_room() -> bool:
        storage.is_full = False
        return True

    write_registration_mark(storage, FULL, make_room)
    assert read_registration_mark(storage) == FULL


SAME, OLDER_FOLDER, OLDER_STORE = Comparison.SAME, Comparison.OLDER_FOLDER, Comparison.OLDER_STORE


@pytest.mark.parametrize(
    ("stored", "marks", "comparison"),
    [
        (None, [], SAME),
        (None, [RegistrationMark()], SAME),
        (None, [RegistrationMark(None, FIRST)], SAME),  # a crash before the first commit
        (FIRST, [RegistrationMark(None, FIRST)], SAME),  # a crash after it
        (FIRST, [RegistrationMark(FIRST)], SAME),
        (FIRST, [RegistrationMark(FIRST, SECOND)], SAME),  # a crash before a later commit
        (SECOND, [RegistrationMark(FIRST, SECOND)], SAME),  # a crash after it
        (SECOND, [RegistrationMark(FIRST)], OLDER_FOLDER),
        (SECOND, [RegistrationMark()], OLDER_FOLDER),
        (THIRD, [RegistrationMark(FIRST, SECOND)], OLDER_FOLDER),
        (SECOND, [RegistrationMark(SECOND), RegistrationMark(FIRST)], OLDER_FOLDER),  # one of two folders
        (SECOND, [RegistrationMark(None, THIRD)], OLDER_FOLDER),  # a copy's start that crashed before its commit
        (SECOND, [RegistrationMark(RegistrationStamp(5, "another"))], OLDER_FOLDER),  # an epoch given out twice
        (FIRST, [RegistrationMark(SECOND)], OLDER_STORE),
        (RENEWED, [RegistrationMark(FIRST)], OLDER_FOLDER),  # a copy of a folder in use
        (FIRST, [RegistrationMark(RENEWED)], OLDER_STORE),  # a copy of a store in use
        (FIRST, [RegistrationMark(SECOND, THIRD)], OLDER_STORE),
        (None, [RegistrationMark(FIRST)], OLDER_STORE),
        (FIRST, [RegistrationMark(FIRST), RegistrationMark(SECOND)], OLDER_STORE),
    ],
)
def test_marks_are_those_of_the_last_registration_or_of_an_older_folder_or_store(
    stored: RegistrationStamp | None, marks: list[RegistrationMark], comparison: Comparison
) -> None:
    assert compare_marks(stored, marks) is comparison
