"""S5.3: bits are flipped in every file of a data folder, and the log is opened again.

What is flipped is found and named, nothing wrong is served, and nothing else is lost. Where a file
has no checksum (Kafka's checkpoints, the offset and the leader epoch of a batch) what it says is
compared with what other files say.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from kqueue.base.errors import CorruptData, StorageFailed
from kqueue.log.config import LogConfig
from kqueue.log.log import Log
from kqueue.log.manager import LogManager
from kqueue.records.batch import ABORT, COMMIT, Record, check_crc, iter_batches, iter_records
from kqueue.storage import MemoryStorage
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.helpers import START_MS, append, end_transaction, flush, note_high_watermarks
from kqueue.tests.thorough import examples

TOPIC_ID = bytes(range(16))
CONFIG = LogConfig.of(segment_bytes=900, index_interval_bytes=150)
KEY = ("t", 0)
FLIPS_PER_FILE = examples(10, 4)


def open_manager(storage: MemoryStorage) -> LogManager:
    return LogManager([storage], clock=ManualClock(START_MS), rng=random.Random(5))


def copy(storage: MemoryStorage) -> MemoryStorage:
    copied = MemoryStorage()
    for folder in ("", *(entry.name for entry in storage.list("") if entry.is_folder)):
        copied.make_folder(folder)
        for entry in storage.list(folder):
            if not entry.is_folder:
                path = f"{folder}/{entry.name}".lstrip("/")
                copied.write_atomic(path, storage.read(path))
    return copied


def filled() -> MemoryStorage:
    """Five segments and more: idempotent producers, transactions, epochs, a partition whose first
    records were deleted.
    """
    storage = MemoryStorage()
    manager = open_manager(storage)
    log = manager.open(*KEY, TOPIC_ID, CONFIG)
    for number in range(30):
        values = [b"%d-%d" % (number, part) * 9 for part in range(2)]
        time_ms = START_MS + number * 10
        append(
            log, *values, producer_id=7, epoch=0, base_sequence=2 * number, leader_epoch=number // 10, time_ms=time_ms
        )
        if number % 8 == 5:
            at: dict[str, int] = {"leader_epoch": number // 10, "time_ms": time_ms}
            append(log, b"in" * 9, producer_id=9, epoch=0, base_sequence=number // 8, transactional=True, **at)
            end_transaction(log, COMMIT if number == 13 else ABORT, 9, **at)
    flush(log)
    other = manager.open("other", 0, TOPIC_ID, CONFIG)
    for number in range(10):
        append(other, b"%d" % number)
    flush(other)
    other.advance_start(4)
    note_high_watermarks(manager, {KEY: log.end_offset, ("other", 0): other.end_offset}).close()
    return storage


WHOLE = filled()
END = 30 * 2 + 4 * 2
FILES = sorted(
    [f"t-0/{entry.name}" for entry in WHOLE.list("t-0")]
    + [entry.name for entry in WHOLE.list("") if not entry.is_folder]
)


@dataclass
class Seen:
    """The answers that readers get of a log."""

    records: list[Record] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)  # offsets at which a read was refused
    aborted: list[tuple[int, int, int]] = field(
        default_factory=list
    )  # producer, first and last offset: what consumers are told
    epochs: list[tuple[int, int]] = field(default_factory=list)


def read_all(log: Log) -> Seen:
    """Everything, as a consumer reads that skips what is refused."""
    seen = Seen(epochs=log.epochs.entries())
    offset = log.start_offset
    while offset < log.end_offset:
        try:
            records, next_offset = read_at(log, offset)
        except CorruptData:
            seen.lost.append(offset)
            offset += 1
            continue
        seen.records += [record for record in records if record.offset >= offset]
        assert next_offset > offset
        offset = next_offset
    try:
        seen.aborted = [one[:3] for one in log.reader.aborted(log.start_offset, log.end_offset)]
    except CorruptData:
        seen.lost.append(-1)
    return seen


def read_at(log: Log, offset: int) -> tuple[list[Record], int]:
    for _ in range(50):
        fetched = log.read(offset, 300, end_offset=log.end_offset)
        if fetched.check is None:
            break
        log.reader.verify_now(fetched.check)
    data = fetched.read()
    records = []
    for position, header in iter_batches(data):
        check_crc(data, position, header)
        records += list(iter_records(data, position))
    return records, fetched.next_offset


def plain(records: list[Record]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records]


def expected() -> Seen:
    manager = open_manager(copy(WHOLE))
    return read_all(manager.open(*KEY, TOPIC_ID, CONFIG))


EXPECTED = expected()


def flips(name: str) -> Iterator[tuple[int, int]]:
    """(byte, bit) of some of a file's bits; all of them where it is short."""
    size = WHOLE.open(name).size
    places = [(byte, bit) for byte in range(size) for bit in range(8)]
    rng = random.Random(name)
    yield from places if len(places) <= FLIPS_PER_FILE else rng.sample(places, FLIPS_PER_FILE)


def flipped(name: str, byte: int, bit: int, *, clean: bool) -> MemoryStorage:
    storage = copy(WHOLE)
    data = bytearray(storage.read(name))
    data[byte] ^= 1 << bit
    storage.write_atomic(name, data)
    if not clean and storage.exists(".kafka_cleanshutdown"):
        storage.remove(".kafka_cleanshutdown")
    return storage


def test_the_files_are_all_that_a_folder_has() -> None:
    kinds = {name.rpartition("/")[2].lstrip("0123456789") for name in FILES}
    assert {
        ".log",
        ".index",
        ".timeindex",
        ".txnindex",
        ".snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    } <= kinds
    assert {
        "meta.properties",
        *(f"{name}-offset-checkpoint" for name in ("recovery-point", "replication", "log-start")),
    } <= kinds
    assert [record.offset for record in EXPECTED.records] == list(range(END))
    assert not EXPECTED.lost
    assert len(EXPECTED.aborted) == 3


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_never_served_and_costs_nothing_else(
    name: str, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for byte, bit in flips(name):
        try:
            check_flipped(name, flipped(name, byte, bit, clean=clean))
        except BaseException as error:
            error.add_note(f"bit {bit} of byte {byte} of {name}, clean={clean}")
            raise


def check_flipped(name: str, storage: MemoryStorage) -> None:
    if name == "meta.properties":
        check_identity(storage)
        return
    manager = open_manager(storage)
    assert set(manager.partition_folders()) == {KEY, ("other", 0)}
    log = manager.open(*KEY, TOPIC_ID, CONFIG)
    seen = read_all(log)
    allowed = set(plain(EXPECTED.records))
    assert not set(plain(seen.records)) - allowed, "what was never written is served"
    assert log.end_offset >= END, "offsets would be given again"
    wanted = {record.offset for record in EXPECTED.records if record.offset >= log.start_offset}
    missing = sorted(wanted - {record.offset for record in seen.records})
    if name.endswith(".log"):
        assert len(missing) <= 4, "more than the batch is lost"
        assert not missing or log.damage, "nobody was told"
        assert all(name in str(damage) or "t-0" in str(damage) for damage in log.damage)
    else:
        assert not missing
    assert set(seen.aborted) <= set(EXPECTED.aborted)
    assert missing or seen.lost or seen.aborted == EXPECTED.aborted
    if not name.endswith(".log"):
        # where the oldest begins is the one thing that the batches can't tell: the log's start may
        # have moved
        assert [seen.epochs[0][0], *seen.epochs[1:]] == [EXPECTED.epochs[0][0], *EXPECTED.epochs[1:]]
    append(log, b"more", leader_epoch=9)
    flush(log)
    manager.close()


def check_identity(storage: MemoryStorage) -> None:
    """A folder that says it is another's is refused, with its file's name; else it serves."""
    try:
        manager = open_manager(storage)
    except StorageFailed as error:
        named = str(error)
        assert "meta.properties" in named
        return
    assert plain(read_all(manager.open(*KEY, TOPIC_ID, CONFIG)).records) == plain(EXPECTED.records)
