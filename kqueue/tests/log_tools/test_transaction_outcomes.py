from __future__ import annotations

import pytest

from kqueue.base.errors import CorruptBatch
from kqueue.storage import MemoryStorage
from kqueue.tests.log_tools.logs import (
    ABORT,
    COMMIT,
    append,
    content,
    end_transaction,
    flush,
    names,
    open_log,
    opened,
    replace,
)


def offsets(storage: MemoryStorage, **options: object) -> list[int]:
    return [record.offset for record in opened(storage).records(isolation="read_committed", **options)]  # type: ignore[arg-type]


@pytest.fixture
def storage() -> MemoryStorage:
    """0-1 committed, 3-4 aborted, 5 without a producer, 7 and 9 committed late, 8 open."""
    storage = MemoryStorage()
    log = open_log(storage)
    first = {"producer_id": 1, "epoch": 0, "transactional": True}
    append(log, b"a", b"b", base_sequence=0, **first)
    end_transaction(log, COMMIT, 1)
    append(log, b"c", b"d", base_sequence=2, **first)
    append(log, b"e")
    end_transaction(log, ABORT, 1)
    append(log, b"f", base_sequence=4, **first)
    append(log, b"g", producer_id=2, epoch=0, base_sequence=0, transactional=True)
    append(log, b"h", base_sequence=5, **first)
    end_transaction(log, COMMIT, 1)
    flush(log)
    log.close()
    return storage


def test_open_and_aborted_transactions_are_left_out(storage: MemoryStorage) -> None:
    assert [record.offset for record in opened(storage)] == [0, 1, 3, 4, 5, 7, 8, 9]
    assert offsets(storage) == [0, 1, 5, 7]
    assert offsets(storage, start_offset=4) == [5, 7]
    assert offsets(storage, start_offset=4, end_offset=6) == [5]
    assert offsets(storage, start_offset=9) == [9], "what is open before the start does not count"


def test_a_marker_that_is_damaged_never_shows_what_was_aborted(storage: MemoryStorage) -> None:
    (name,) = names(storage)
    data = bytearray(content(storage, name))
    marker = next(batch for batch in opened(storage).batches() if batch.is_control)
    data[marker.position + 61 + 5] ^= 1  # in the type
    replace(storage, name, bytes(data))
    with pytest.raises(CorruptBatch, match="expected checksum"):
        offsets(storage)
    told: list[object] = []
    assert offsets(storage, on_damage=told.append) == [5, 7], (
        "0 and 1 share the fate of the next: nothing aborted is shown"
    )
    assert told
