"""S3.6, S5.2, S5.3: kqueue's files are valid while it runs, after a shutdown and after a crash."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.log.config import LogConfig
from kqueue.log.log import Log
from kqueue.log.manager import LogManager
from kqueue.log_tools.verify import verify_storage
from kqueue.storage import MemoryStorage
from kqueue.testing.faulty_storage import FaultyStorage, Remains
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.compaction.helpers import DAY_MS, compact, open_compacted, put
from kqueue.tests.log.helpers import START_MS, append, end_transaction, flush, run_through
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples

SMALL = LogConfig.of(**{"segment.bytes": 2000, "index.interval.bytes": 200})


def manager(storage: MemoryStorage | FaultyStorage, seed: int = 1) -> LogManager:
    return LogManager([storage], clock=ManualClock(START_MS), rng=random.Random(seed))


def fill(log: Log, rng: random.Random, count: int, producer_ids: tuple[int, ...] = (5, 6, 7)) -> None:
    """Append records of all producers, transactions of all outcomes, and leader epochs."""
    sequences = dict.fromkeys(producer_ids, 0)
    open_ones: set[int] = set()
    epoch = max(log.epochs.latest, 0)
    for number in range(count):
        epoch += rng.random() < 0.05
        producer = rng.choice((*producer_ids, None))
        values = [b"x" * rng.randint(1, 200) for _ in range(rng.randint(1, 4))]
        time_ms = START_MS + number * 100 - rng.randint(0, 1000)
        if producer is None:
            append(log, *values, leader_epoch=epoch, time_ms=time_ms)
        elif producer in open_ones and rng.random() < 0.4:
            end_transaction(log, rng.randint(0, 1), producer, leader_epoch=epoch, time_ms=time_ms)
            open_ones.discard(producer)
        else:
            sequence = sequences[producer]
            append(
                log,
                *values,
                leader_epoch=epoch,
                time_ms=time_ms,
                producer_id=producer,
                epoch=0,
                base_sequence=sequence,
                transactional=True,
            )
            sequences[producer] = sequence + len(values)
            open_ones.add(producer)


@for_each("seed", range(3))
def test_at_work_and_after_a_clean_stop(seed: int) -> None:
    storage = MemoryStorage()
    logs = manager(storage)
    log = logs.open("t", 0, bytes(15) + b"\x01", SMALL)
    fill(log, random.Random(seed), 150)
    report = verify_storage(storage, deep=True)
    assert report.is_sound, report.errors
    assert report.segments > 5
    logs.close()
    report = verify_storage(storage, deep=True)
    assert (report.errors, report.notes) == ([], [])
    assert report.batches == 150


@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 10_000), remains=st.sampled_from(Remains))
def test_after_a_power_cut_and_the_start_that_follows(seed: int, remains: Remains) -> None:
    rng = random.Random(seed)
    storage = FaultyStorage()
    logs = manager(storage)
    log = logs.open("t", 0, bytes(15) + b"\x01", SMALL)
    fill(log, rng, 30)
    flush(log)
    run_through(logs.checkpoints.write_all())
    fill(log, rng, 15, (8, 9))
    disk = storage.after_cut(remains, rng)
    report = verify_storage(disk)  # whatever it is, it must not end in an exception
    assert report.partitions == 1
    again = manager(disk)
    again.open("t", 0, bytes(15) + b"\x01", SMALL)
    again.close()
    report = verify_storage(disk, deep=True)
    assert report.is_sound, report.errors


def test_after_truncation_and_deletion() -> None:
    storage = MemoryStorage()
    logs = manager(storage)
    log = logs.open("t", 0, bytes(15) + b"\x01", SMALL)
    fill(log, random.Random(7), 60)
    log.truncate_to(log.end_offset - 20)
    log.advance_start(11)
    logs.close()
    report = verify_storage(storage)
    assert (report.errors, report.notes) == ([], [])


@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 10_000))
def test_after_compaction(seed: int) -> None:
    """S5.2: with tombstones, transactions of all ends, and delete horizons that have passed."""
    rng = random.Random(seed)
    storage = MemoryStorage()
    log = open_compacted(storage, segment_bytes=1500)
    sequences = dict.fromkeys((5, 6), 0)
    for number in range(60):
        producer = rng.choice((5, 6, None))
        pairs = [
            (b"%d" % rng.randint(0, 9), rng.choice((None, b"x" * rng.randint(0, 99)))) for _ in range(rng.randint(1, 4))
        ]
        if producer is None:
            put(log, *pairs, time_ms=START_MS + number)
            continue
        put(
            log,
            *pairs,
            time_ms=START_MS + number,
            producer_id=producer,
            epoch=0,
            base_sequence=sequences[producer],
            transactional=True,
        )
        sequences[producer] += len(pairs)
        if rng.random() < 0.7:
            end_transaction(log, rng.randint(0, 1), producer, time_ms=START_MS + number)
    for producer in sequences:
        end_transaction(log, rng.randint(0, 1), producer)
    log.close()
    for now_ms in (START_MS, START_MS + 2 * DAY_MS):
        compact(storage, first_dirty=0, now_ms=now_ms)
        report = verify_storage(storage, "t-0", deep=True, allow_gaps=True)
        assert report.is_sound, report.errors
