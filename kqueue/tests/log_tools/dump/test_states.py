from __future__ import annotations

from pathlib import Path

import pytest

from kqueue.base.errors import CorruptIndex
from kqueue.log.formats.producer_snapshot import encode_snapshot
from kqueue.log.formats.transaction_index import ENTRY
from kqueue.log.producer_state import ProducerStateEntry, ProducerStateManager
from kqueue.log_tools.dump import DumpFile, DumpOptions, Problems, file_dump
from kqueue.log_tools.dump.file_dump import dump_snapshot, dump_transactions
from kqueue.tests.log_tools.damage import flip
from kqueue.tests.log_tools.dump.sample_logs import ZERO, dumped, made_with_transactions

SNAPSHOT = "00000000000000000004.snapshot"


def test_a_transaction_that_was_aborted(tmp_path: Path) -> None:
    """S7.2: with the last stable offset of that time."""
    path = made_with_transactions(tmp_path) / f"{ZERO}.txnindex"
    assert dumped(path)[0] == ["version: 0 producerId: 7 firstOffset: 0 lastOffset: 2 lastStableOffset: 3"]


def test_snapshot_shows_last_batch_and_open_transaction(tmp_path: Path) -> None:
    """S7.2: with the last batch, and the first offset of an open transaction."""
    done, midst = dumped(made_with_transactions(tmp_path) / SNAPSHOT)[0]
    assert done.startswith(
        "producerId: 7 producerEpoch: 1 coordinatorEpoch: 4 currentTxnFirstOffset: OptionalLong.empty lastTimestamp: "
    )
    assert " firstSequence: 0 lastSequence: 1 lastOffset: 1 offsetDelta: 1 timestamp: " in done
    assert midst == (
        "producerId: 8 producerEpoch: 2 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong[3] lastTimestamp: 5000"
        " firstSequence: 0 lastSequence: 0 lastOffset: 3 offsetDelta: 0 timestamp: 5000"
    )


def test_a_producer_without_batches_has_the_shorter_line(tmp_path: Path) -> None:
    producers = ProducerStateManager()
    producers.add(5, ProducerStateEntry(3))
    path = tmp_path / SNAPSHOT
    path.write_bytes(encode_snapshot(producers))
    (line,) = dumped(path)[0]
    assert (
        line == "producerId: 5 producerEpoch: 3 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty "
        "lastTimestamp: -1"
    )


def test_an_index_larger_than_what_is_read_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_dump, "CHUNK_ENTRIES", 2)
    path = tmp_path / f"{ZERO}.txnindex"
    path.write_bytes(b"".join(ENTRY.pack(0, producer_id, 1, 2, 3) for producer_id in range(5)))
    assert [line.split()[3] for line in dumped(path)[0]] == ["0", "1", "2", "3", "4"]


def test_damage_is_raised_and_what_came_before_it_shown(tmp_path: Path) -> None:
    folder = made_with_transactions(tmp_path)
    index, snapshot = folder / f"{ZERO}.txnindex", folder / SNAPSHOT
    flip(snapshot, 20)
    with pytest.raises(CorruptIndex, match="checksum"):
        list(dump_snapshot(DumpFile(str(snapshot)), DumpOptions(), Problems(print)))
    index.write_bytes(index.read_bytes() + ENTRY.pack(6, 1, 2, 3, 4))
    lines = dump_transactions(DumpFile(str(index)), DumpOptions(), Problems(print))
    assert next(lines).startswith("version: 0 producerId: 7 ")
    with pytest.raises(CorruptIndex, match="expected version 0 of aborted transactions, found 6"):
        next(lines)
