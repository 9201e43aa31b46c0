"""S5.2, S5.3: the power is cut at every step of a compaction; what is left is all old or all new,
group by group.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from kqueue.base.errors import CorruptBatch, StorageFailed
from kqueue.log.compaction import swap_files
from kqueue.log.formats.filenames import CLEANED, DELETED, INDEX, LOG, SWAP, TIMEINDEX, TXNINDEX, file_name
from kqueue.log.formats.transaction_index import AbortedTxn, decode_aborted
from kqueue.log.log import Log
from kqueue.records.batch import ABORT, COMMIT
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.tests.log.compaction.helpers import DAY_MS, FOLDER, compact, config, open_compacted, put, task, units
from kqueue.tests.log.helpers import START_MS, end_transaction, flush
from kqueue.tests.thorough import corners, parts

State = list[tuple[object, ...]]
SEGMENT_BYTES = 900
LATER_MS = START_MS + 2 * DAY_MS


def build() -> FaultyStorage:
    """A log of many small segments: most of their records go; so do tombstones, an aborted
    transaction and the whole of one segment.
    """
    storage = FaultyStorage()
    log = open_compacted(storage)
    fill(log, 0)
    # the tombstones get their horizon, so that the next compaction drops them
    compact(storage, segment_bytes=1)
    fill(open_compacted(storage, recovery_point=log.end_offset), 4)
    storage.sync_folder(FOLDER)
    return storage.after_cut(Remains.LOST, random.Random(0))


def fill(log: Log, first: int) -> None:
    for number in range(first, first + 4):
        put(
            log,
            (b"a", b"a%d" % number),
            (b"once %d" % number, b"x" * 40),
            (b"gone", None if number % 4 == 2 else b"v%d" % number),
        )
        if number % 2 == 0:
            put(log, (b"a", b"aborted"), producer_id=9 + number, epoch=0, base_sequence=0, transactional=True)
            end_transaction(log, COMMIT if number % 4 == 2 else ABORT, 9 + number)
        put(log, (b"once %d" % (number - 2), None))
        log.roll()
    put(log, (b"a", b"a whole segment that goes"))
    log.roll()
    put(log, (b"a", b"last"), (b"once 0", b"again"))
    log.roll()
    flush(log)


BASE = build()
CONFIG = config(segment_bytes=SEGMENT_BYTES)


def copy(cut_at: int | None = None) -> FaultyStorage:
    return BASE.after_cut(Remains.KEPT, random.Random(0), cut_at=cut_at)


def names(storage: FaultyStorage) -> list[str]:
    return [entry.name for entry in storage.list(FOLDER)]


def state(storage: FaultyStorage) -> State:
    """All records, and the entries of the indexes of aborted transactions."""
    files: State = [
        (record.offset, record.key, record.value) for _, records in units(storage, FOLDER) for record in records
    ]
    for name in names(storage):
        if name.endswith(TXNINDEX):
            files += decode_aborted(storage.read(f"{FOLDER}/{name}"))
    return files


def steps(storage: FaultyStorage) -> Iterator[int]:
    """A compaction, step by step; yields how many groups have been committed for good."""
    done = task(storage, now_ms=LATER_MS, config=CONFIG)()
    yield 0
    for number, group in enumerate(done.groups):
        swap_files.commit(storage, FOLDER, group)
        yield number + 1
        deleted = swap_files.install(storage, FOLDER, group)
        yield number + 1
        storage.sync_folder(FOLDER)
        for path in deleted:
            storage.remove(path)


def states() -> list[State]:
    """What the log holds before, and after each group."""
    storage = copy()
    reached = [state(storage)]
    done = task(storage, now_ms=LATER_MS, config=CONFIG)()
    for group in done.groups:
        swap_files.commit(storage, FOLDER, group)
        swap_files.install(storage, FOLDER, group)
        reached.append(state(storage))
    return reached


STATES = states()
END = max(record.offset for _, records in units(BASE) for record in records) + 1


def check(storage: FaultyStorage, committed: int) -> None:
    """Complete an interrupted swap: all durably committed groups hold, and at most one more."""
    swap_files.complete(storage, FOLDER, names(storage))
    assert not [name for name in names(storage) if name.endswith((CLEANED, SWAP))]
    assert state(storage) in STATES[committed : committed + 2]
    left = storage.after_cut(Remains.LOST, random.Random(0))
    assert state(left) == state(storage), "what complete did is not durable"
    log = open_compacted(left, recovery_point=END)
    assert not log.damage
    assert log.end_offset == END


def run_until(storage: FaultyStorage) -> int:
    """Compact until the power goes; returns how many groups were committed for good."""
    committed = 0
    try:
        for done in steps(storage):
            committed = done
    except PowerCut:
        return committed
    raise AssertionError("the power did not go")


def count_steps() -> int:
    storage = copy()
    for _ in steps(storage):
        pass
    return len(storage.steps)


STEPS = count_steps()


def test_sample_compaction_has_several_groups_that_all_lose_records() -> None:
    storage = copy()
    done = task(storage, now_ms=LATER_MS, config=CONFIG)()
    assert len(done.groups) >= 3
    assert sum(len(group.sources) > 1 for group in done.groups) >= 2
    assert any(group.cleaned.has_txnindex for group in done.groups)
    sizes = [len(one) for one in STATES]
    assert sizes == sorted(set(sizes), reverse=True)
    assert [sum(isinstance(row, AbortedTxn) for row in one) for one in STATES] == [2, 1, 1, 1]
    assert {"rename", "sync", "append", "create", "sync_folder", "remove"} <= {step.kind for step in storage.steps} | {
        "rename",
        "remove",
    }


@parts(6)
@pytest.mark.parametrize("remains", corners(Remains, Remains.TORN))
def test_a_power_cut_at_any_step_leaves_all_old_or_all_new(remains: Remains, part: slice) -> None:
    """S5.2"""
    for cut_at in range(1, STEPS + 1)[part]:
        storage = copy(cut_at)
        committed = run_until(storage)
        for seed in range(3 if remains is Remains.TORN else 1):
            left = storage.after_cut(remains, random.Random(1000 * seed + cut_at))
            try:
                check(left, committed)
            except BaseException as error:
                error.add_note(f"cut at step {cut_at}, {storage.steps[-1]}, seed {seed}")
                raise


@pytest.mark.thorough
def test_a_power_cut_during_completion_is_recovered() -> None:
    """S5.2"""
    rng = random.Random(3)
    seen = 0
    for cut_at in range(1, STEPS + 1):
        storage = copy(cut_at)
        committed = run_until(storage)
        torn = rng.randrange(1 << 30)
        whole = storage.after_cut(Remains.TORN, random.Random(torn))
        swap_files.complete(whole, FOLDER, names(whole))
        for second in range(1, len(whole.steps) + 1):
            seen += 1
            again = storage.after_cut(Remains.TORN, random.Random(torn), cut_at=second)
            with pytest.raises(PowerCut):
                swap_files.complete(again, FOLDER, names(again))
            check(again.after_cut(Remains.TORN, random.Random(second)), committed)
    assert seen > 100


def test_completion_without_an_interrupted_swap_changes_nothing() -> None:
    storage = copy()
    assert not swap_files.complete(storage, FOLDER, names(storage))
    assert storage.steps == []


def test_old_names_stay_until_the_caller_removes_them() -> None:
    storage = copy()
    done = task(storage, now_ms=LATER_MS, config=CONFIG)()
    swap_files.commit(storage, FOLDER, done.groups[0])
    deleted = swap_files.install(storage, FOLDER, done.groups[0])
    assert any(path.endswith(TXNINDEX + DELETED) for path in deleted)
    assert sorted(deleted) == [f"{FOLDER}/{name}" for name in names(storage) if name.endswith(DELETED)]
    assert len(deleted) >= 3 * len(done.groups[0].sources)


def test_a_failed_rename_costs_nothing() -> None:
    for number in range(3):
        storage = copy()
        done = task(storage, now_ms=LATER_MS, config=CONFIG)()
        swap_files.commit(storage, FOLDER, done.groups[0])
        seen = [0]

        def fails(path: str, seen: list[int] = seen, number: int = number) -> bool:
            seen[0] += 1
            return seen[0] > 2 * number + 1

        storage.fail("rename", fails)
        with pytest.raises(StorageFailed):
            swap_files.install(storage, FOLDER, done.groups[0])
        storage.mend()
        check(storage, 1)


def rename(storage: FaultyStorage, base: int, suffixes: tuple[str, ...], old: str, new: str) -> None:
    for suffix in suffixes:
        path = f"{FOLDER}/{file_name(base, suffix)}"
        storage.rename(path + old, path + new)


def test_an_interrupted_swap_of_kafka_is_completed() -> None:
    """S5.2, S3.6: Kafka renames the log before its indexes, and may have left an old index of
    aborted transactions.
    """
    storage = copy()
    before = names(storage)
    done = task(storage, now_ms=LATER_MS, config=CONFIG)()
    group = done.groups[0]
    assert f"{group.cleaned.base:020d}.txnindex" in before
    storage.remove(f"{FOLDER}/{file_name(group.cleaned.base, TXNINDEX)}{CLEANED}")
    rename(storage, group.cleaned.base, (LOG, INDEX, TIMEINDEX), CLEANED, SWAP)
    swap_files.discard(storage, FOLDER, done.groups[1:])
    assert swap_files.complete(storage, FOLDER, names(storage))
    new = [row for row in STATES[1] if not isinstance(row, AbortedTxn)]
    assert [row for row in state(storage) if not isinstance(row, AbortedTxn)] == new
    markers = {row[0] for row in new}
    assert all(row.last_offset in markers for row in state(storage) if isinstance(row, AbortedTxn))


def test_an_interrupted_split_of_kafka_is_undone() -> None:
    """S5.2, S3.6: of a segment that was to be split in two, the second half has its swap name
    already, the first has not.
    """
    storage = copy()
    old = state(storage)
    done = task(storage, now_ms=LATER_MS, config=CONFIG)()
    rename(storage, done.groups[1].cleaned.base, (LOG, INDEX, TIMEINDEX), CLEANED, SWAP)
    assert swap_files.complete(storage, FOLDER, names(storage))
    assert state(storage) == old
    assert not [name for name in names(storage) if name.endswith((CLEANED, SWAP))]


def test_a_damaged_new_segment_does_not_count_as_short() -> None:
    storage = copy()
    done = task(storage, now_ms=LATER_MS, config=CONFIG)()
    base = done.groups[0].cleaned.base
    swap_files.discard(storage, FOLDER, done.groups[1:])
    swap_files.commit(storage, FOLDER, done.groups[0])
    path = f"{FOLDER}/{file_name(base, LOG)}{SWAP}"
    data = storage.read(path)
    storage.write_atomic(path, data[:-1])
    before = names(storage)
    with pytest.raises(CorruptBatch, match="expected whole batches"):
        swap_files.complete(storage, FOLDER, before)
    assert names(storage) == before


def test_a_damaged_installed_segment_does_not_prevent_opening() -> None:
    storage = copy()
    done = task(storage, now_ms=LATER_MS, config=CONFIG)()
    swap_files.discard(storage, FOLDER, done.groups[1:])
    swap_files.commit(storage, FOLDER, done.groups[0])
    swap_files.install(storage, FOLDER, done.groups[0])
    path = f"{FOLDER}/{file_name(done.groups[0].cleaned.base, LOG)}"
    storage.write_atomic(path, storage.read(path)[:-1])
    before = names(storage)
    assert not swap_files.complete(storage, FOLDER, before)
    assert names(storage) == before
