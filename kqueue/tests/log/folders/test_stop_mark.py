from __future__ import annotations

import random

from kqueue.log.folders.data_folder import take_stop_mark, write_stop_mark
from kqueue.storage import MemoryStorage
from kqueue.testing.faulty_storage import FaultyStorage, Remains


def test_a_mark_is_taken_once() -> None:
    storage = MemoryStorage()
    assert take_stop_mark(storage) is None
    write_stop_mark(storage, 3)
    assert take_stop_mark(storage) == 3
    assert take_stop_mark(storage) is None


def test_a_taken_mark_does_not_come_back_after_a_power_cut() -> None:
    for remains in Remains:
        storage = FaultyStorage()
        write_stop_mark(storage, 3)
        assert take_stop_mark(storage) == 3
        assert take_stop_mark(storage.after_cut(remains, random.Random(0))) is None
