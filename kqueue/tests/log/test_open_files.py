"""No more files can be opened (EMFILE, ENFILE): nothing goes offline, or is written twice or in
part, and it goes on when there is room.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from kqueue.base.errors import TooManyOpenFiles
from kqueue.base.jobs import IoJob
from kqueue.log.config import LogConfig
from kqueue.log.log import Log
from kqueue.log.manager import LogManager
from kqueue.log.scanner.batch_scanner import scan
from kqueue.records.batch import ABORT, read_header
from kqueue.storage import LocalStorage
from kqueue.storage.descriptor_cache import DescriptorCache, OpenFiles
from kqueue.testing.faulty_storage import FaultyStorage, Remains
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.helpers import START_MS, append, batch, end_transaction, flush, open_log, read_values, stable_end
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import parts

T = TypeVar("T")
ID = bytes(range(16))
TRIES_MAX = 1000
CONFIG = LogConfig.of(segment_bytes=500, index_interval_bytes=100)


class System:
    """Makes opens fail: number `number`, or a random share of all. `refused` counts failures."""

    def __init__(self, number: int, part: float = 0, seed: int = 1) -> None:
        self.number = number
        self.part = part
        self.rng = random.Random(seed)
        self.opened = 0
        self.refused = 0

    def call(self, run: Callable[[], T]) -> T:
        self.opened += 1
        if self.opened == self.number or self.rng.random() < self.part:
            self.refused += 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return run()


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Callable[[System], None]:
    def use(system: System) -> None:
        monkeypatch.setattr(DescriptorCache, "call", lambda self, run: system.call(run))
        monkeypatch.setattr(os, "fdatasync", lambda fd: None)  # which only takes time here
        monkeypatch.setattr(os, "fsync", lambda fd: None)

    return use


def again(run: Callable[[], T]) -> T:
    """What clients and timers do."""
    for _ in range(TRIES_MAX):
        try:
            return run()
        except TooManyOpenFiles:
            continue
    raise AssertionError("it never succeeds")


def start(root: Path) -> LogManager:
    storage = LocalStorage(root, DescriptorCache(4, OpenFiles(bound=10_000)))
    return LogManager([storage], clock=ManualClock(START_MS), rng=random.Random(3))


def flush_all(log: Log) -> None:
    for _ in range(TRIES_MAX):
        if not log.needs_flush:
            return
        job = log.flush_job()
        assert job is not None
        _run(job)
        assert log.health.failure is None
    raise AssertionError("it never succeeds")


def _run(job: IoJob[None]) -> None:
    try:
        job.run()
    except Exception as error:
        job.finish(None, error)
    else:
        job.finish(None, None)


def live(root: Path, *, cleanly: bool) -> None:
    """Appends with rolls, reads, flushes, aborted transactions, checkpoints, a stop, and a start
    that finds it all.
    """
    manager = again(lambda: start(root))
    logs = [again(lambda index=index: manager.open("t", index, ID, CONFIG)) for index in range(3)]  # type: ignore[misc]
    values: list[list[bytes | None]] = [[] for _ in logs]
    for number in range(12):
        for log, written in zip(logs, values, strict=True):
            value = b"%03d" % number * 10
            sequence = {"producer_id": 1, "epoch": 0, "base_sequence": number}
            appended = again(lambda log=log, value=value, sequence=sequence: _append(log, value, sequence))  # type: ignore[misc]
            assert appended == len(written), "nothing is lost, nothing is there twice"
            written.append(value)
        if number % 3 == 2:
            for log in logs:
                flush_all(log)
            manager.checkpoints.write_all()
        for log, written in zip(logs, values, strict=True):
            assert again(lambda log=log: read_values(log)) == written  # type: ignore[misc]
            assert log.health.failure is None
    assert not manager.offline
    assert all(folder.error is None for folder in manager._folders)
    if cleanly:
        stop(manager)
    else:
        for folder in manager._folders:
            folder._lock.release()
    manager = again(lambda: start(root))
    for index, written in enumerate(values):
        log = again(lambda index=index: manager.open("t", index, ID, CONFIG))  # type: ignore[misc]
        assert again(lambda log=log: read_values(log)) == written  # type: ignore[misc]
        assert not log.damage
        again(lambda log=log: check_entries(log))  # type: ignore[misc]
    stop(manager)


def stop(manager: LogManager) -> None:
    """It repeats nothing; where something was refused it is not marked as clean, and the next start
    checks the logs.
    """
    with contextlib.suppress(TooManyOpenFiles):
        manager.close()


def check_entries(log: Log) -> None:
    """Each index entry names a batch; an entry may come a batch late."""
    for segment in log.segments:
        batches = {(unit.last_offset, position) for position, unit, *_ in scan(segment.log, 0, segment.size)}
        entries = segment.index.entries
        assert {tuple(segment.index._at(number)) for number in range(entries.count)} <= batches
        assert not segment.index_mismatch


def _append(log: Log, value: bytes, sequence: dict[str, int]) -> int:
    buf = batch(value, **sequence)
    return log.append(buf, read_header(buf), leader_epoch=0).base_offset


@pytest.mark.long
@parts(8)
@pytest.mark.parametrize("cleanly", [True, False])
def test_an_open_that_is_refused_anywhere_costs_a_repetition(
    tmp_path: Path, system: Callable[[System], None], cleanly: bool, part: slice
) -> None:
    counting = System(0)
    system(counting)
    live(tmp_path / "0", cleanly=cleanly)
    for number in range(1, counting.opened + 1)[part]:
        refusing = System(number)
        system(refusing)
        live(tmp_path / f"{number}", cleanly=cleanly)
        assert refusing.refused == 1


@pytest.mark.parametrize("part", [0.05, 0.15])
@pytest.mark.parametrize("seed", range(3))
def test_broker_goes_on_while_many_opens_are_refused(
    tmp_path: Path, system: Callable[[System], None], part: float, seed: int
) -> None:
    refusing = System(0, part, seed)
    system(refusing)
    live(tmp_path, cleanly=True)
    assert refusing.refused > 10


def test_a_flush_that_can_not_open_its_files_is_repeated_whole() -> None:
    storage = FaultyStorage()
    log = open_log(storage, segment_bytes=150)
    heard: list[tuple[int, bool]] = []
    log.on_flushed = lambda: heard.append((log.flushed_offset, log.flush_refused))
    for number in range(4):
        append(log, b"%03d" % number * 10)
    storage.fail("sync", lambda path: path.endswith(".index"), number=errno.EMFILE)
    job = log.flush_job()
    assert job is not None
    _run(job)
    assert heard == [(0, True)]
    assert log.health.failure is None
    storage.mend()
    flush(log)
    assert heard[-1] == (4, False)
    after = storage.after_cut(Remains.LOST, random.Random(1))
    assert read_values(open_log(after, segment_bytes=150, recovery_point=4)) == [
        b"%03d" % number * 10 for number in range(4)
    ]


@for_each("kind", ["create", "append"])
def test_an_abort_marker_is_written_with_its_index_entry_or_not_at_all(kind: str) -> None:
    storage = FaultyStorage()
    log = open_log(storage)
    append(log, b"a", producer_id=1, epoch=0, base_sequence=0, transactional=True)
    storage.fail(kind, lambda path: path.endswith(".txnindex"), number=errno.EMFILE)
    with pytest.raises(TooManyOpenFiles):
        end_transaction(log, ABORT, 1)
    assert (log.end_offset, stable_end(log), log.health.failure) == (1, 0, None)
    storage.mend()
    end_transaction(log, ABORT, 1)
    assert (log.end_offset, stable_end(log)) == (2, 2)
    assert len(log.reader.aborted(0, 2)) == 1


def test_a_roll_that_is_refused_leaves_no_segment_behind() -> None:
    storage = FaultyStorage()
    log = open_log(storage, segment_bytes=200)
    append(log, b"a" * 60)
    storage.fail("create", lambda path: path.endswith(".timeindex"), number=errno.EMFILE)
    with pytest.raises(TooManyOpenFiles):
        append(log, b"b" * 100)
    assert {entry.name[:20] for entry in storage.list("t-0") if entry.name.endswith(("log", "index"))} == {"0" * 20}
    storage.mend()
    append(log, b"c")
    append(log, b"d" * 100)
    flush(log)
    assert read_values(open_log(storage, segment_bytes=200)) == [b"a" * 60, b"c", b"d" * 100]


def test_a_data_folder_is_not_offline_for_it() -> None:
    storage = FaultyStorage()
    storage.fail("create", number=errno.ENFILE)
    with pytest.raises(TooManyOpenFiles):
        LogManager([storage], clock=ManualClock(START_MS), rng=random.Random(3))
    storage.mend()
    manager = LogManager([storage], clock=ManualClock(START_MS), rng=random.Random(3))
    storage.fail("create", number=errno.EMFILE)
    with pytest.raises(TooManyOpenFiles):
        manager.create("t", 0, ID)
    manager.checkpoints.write_all()
    storage.mend()
    assert not manager.offline
    assert all(folder.error is None for folder in manager._folders)
    manager.create("t", 0, ID)
