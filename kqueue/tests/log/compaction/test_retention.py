"""S5.2: which records and batches stay: transactions, markers, tombstones, last batches."""

from __future__ import annotations

from typing import Any

from kqueue.log.compaction.engine import PYTHON
from kqueue.log.compaction.offset_map import OffsetMap
from kqueue.log.compaction.retention import (
    DROPPED,
    BatchRetentionResult,
    EndedTransaction,
    RetentionRules,
    TransactionTracker,
)
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.records.batch import ABORT, BATCH_OVERHEAD, COMMIT, BatchHeader, Record, read_header
from kqueue.records.builder import BatchBuilder
from kqueue.tests.log.helpers import marker
from kqueue.tests.tables import for_each

NOW = 1_000_000
RETENTION = 500
PID = 7


def header(base: int, last: int | None = None, **settings: Any) -> BatchHeader:
    builder = BatchBuilder(
        base_offset=base, **{"producer_id": PID, "epoch": 0, "base_sequence": 0, "transactional": True, **settings}
    )
    builder.append(0, b"k", b"v")
    return read_header(bytes(builder.build(last_offset=base if last is None else last)))


def aborted(first: int, last: int, producer: int = PID) -> AbortedTxn:
    return AbortedTxn(producer, first, last, last)


# --- transactions


def test_batches_between_first_offset_and_marker_are_aborted() -> None:
    tracker = TransactionTracker([aborted(10, 20), aborted(40, 50), aborted(12, 60, producer=8)])
    assert not tracker.is_aborted(header(5))
    assert tracker.is_aborted(header(10))
    assert tracker.is_aborted(header(15, producer_id=8))
    assert tracker.is_aborted(header(16, 18))
    assert not tracker.is_aborted(header(19, transactional=False, producer_id=-1, epoch=-1, base_sequence=-1))
    assert tracker.end(header(20), ABORT) == EndedTransaction(True, aborted(10, 20))
    assert not tracker.is_aborted(header(25)), "the next transaction of the same producer"
    assert tracker.end(header(30), COMMIT) == EndedTransaction(True)
    assert tracker.is_aborted(header(45))
    assert tracker.is_aborted(header(55, producer_id=8))


def test_a_transaction_without_its_marker_ends_at_the_markers_offset() -> None:
    tracker = TransactionTracker([aborted(10, 20)])
    assert tracker.is_aborted(header(12))
    assert not tracker.is_aborted(header(21))


def test_a_marker_is_retained_while_its_transaction_has_batches() -> None:
    tracker = TransactionTracker([aborted(10, 20), aborted(30, 35)])
    assert tracker.end(header(5), COMMIT) == EndedTransaction(False)
    tracker.is_aborted(header(11))
    assert tracker.end(header(20), ABORT).is_needed
    assert tracker.end(header(35), ABORT) == EndedTransaction(False)
    tracker.is_aborted(header(40, producer_id=8))
    assert tracker.end(header(41), COMMIT) == EndedTransaction(False), "another producer's"
    assert tracker.end(header(42, producer_id=8), COMMIT) == EndedTransaction(True)
    assert tracker.end(header(43), None) == EndedTransaction(False), "an empty control batch"
    assert tracker.end(header(44), 5) == EndedTransaction(True), "a control record of another kind"


# --- batches


def retention(latest: dict[bytes, int] | None = None, **settings: Any) -> RetentionRules:
    clean_to = settings.get("clean_to", 1000)
    offset_map = OffsetMap(1000, start_offset=settings.get("first_dirty", 0))
    for key, offset in sorted((latest or {}).items(), key=lambda item: item[1]):
        offset_map.put(key, offset)
    offset_map.end_offset = clean_to
    defaults: dict[str, Any] = {
        "engine": PYTHON,
        "offset_map": offset_map,
        "keep": None,
        "transactions": TransactionTracker([]),
        "last_batches": {},
        "marked_epochs": {},
        "first_dirty": 0,
        "clean_to": clean_to,
        "start_offset": 0,
        "now_ms": NOW,
        "delete_retention_ms": RETENTION,
    }
    return RetentionRules(**{**defaults, **settings})


def verdict(rules: RetentionRules, *records: Record, **settings: Any) -> tuple[BatchRetentionResult, list[int]]:
    builder = BatchBuilder(base_offset=records[0].offset, **settings)
    for record in records:
        builder.append(record.timestamp, record.key, record.value, offset=record.offset)
    batch = bytes(builder.build())
    decision = rules.of_batch(read_header(batch), lambda: batch[BATCH_OVERHEAD:])
    return decision, [record.offset for record in records[: decision.kept.records]]


def tombstone(offset: int, key: bytes = b"a") -> Record:
    return Record(offset, NOW, key, None)


def test_a_tombstone_gets_a_delete_horizon_and_is_removed_after_it() -> None:
    decision, kept = verdict(retention({b"a": 5}), tombstone(5))
    assert (decision.horizon_ms, kept) == (NOW + RETENTION, [5])
    for horizon, kept_then in ((NOW + 1, [5]), (NOW, []), (NOW - 1, [])):
        decision, kept = verdict(retention({b"a": 5}), tombstone(5), delete_horizon_ms=horizon)
        assert (decision.horizon_ms, kept) == (None, kept_then)
    assert verdict(retention({b"a": 6}), tombstone(5))[0] == DROPPED


def test_uncleaned_batches_keep_tombstones_without_a_horizon() -> None:
    decision, kept = verdict(retention({}, clean_to=5), tombstone(5))
    assert (decision.horizon_ms, kept) == (None, [5])
    decision, kept = verdict(retention({}, clean_to=5), tombstone(5), delete_horizon_ms=NOW - 1)
    assert (decision.horizon_ms, kept) == (None, [5])


def test_batches_below_the_log_start_are_removed() -> None:
    rules = retention({b"a": 5, b"b": 6}, start_offset=6)
    assert verdict(rules, Record(5, 0, b"a", b"1"))[0] == DROPPED
    decision, _ = verdict(rules, Record(5, 0, b"a", b"1"), Record(6, 0, b"b", b"2"))
    assert decision.kept.records == 1


def test_aborted_data_is_removed_regardless_of_the_map() -> None:
    rules = retention({b"a": 5}, transactions=TransactionTracker([aborted(5, 6)]))
    settings = {"producer_id": PID, "epoch": 0, "base_sequence": 0, "transactional": True}
    assert verdict(rules, Record(5, 0, b"a", b"1"), **settings)[0] == DROPPED


def test_a_filter_decides_instead_of_the_map() -> None:
    rules = retention(offset_map=None, keep=lambda record: record.value != b"no", start_offset=5)
    decision, _ = verdict(
        rules,
        Record(4, 0, None, b"yes"),
        Record(5, 0, None, b"no"),
        Record(6, 3, None, None),
        Record(7, 1, b"k", b"yes"),
    )
    assert decision.kept.records == 2
    assert decision.kept.max_timestamp == 3
    assert decision.horizon_ms is None


def marker_verdict(
    rules: RetentionRules, kind: int, offset: int = 6, horizon_ms: int | None = None
) -> BatchRetentionResult:
    batch = bytearray(marker(kind, PID))
    batch[:8] = offset.to_bytes(8, "big")
    marker_header = read_header(bytes(batch))
    if horizon_ms is not None:
        marker_header = marker_header._replace(attributes=marker_header.attributes | 0x40, base_timestamp=horizon_ms)
    return rules.of_batch(marker_header, lambda: bytes(batch[BATCH_OVERHEAD:]))


@for_each("kind", [COMMIT, ABORT])
def test_a_marker_without_data_gets_a_delete_horizon_and_is_removed_after_it(kind: int) -> None:
    assert marker_verdict(retention(), kind).horizon_ms == NOW + RETENTION
    staying = marker_verdict(retention(), kind, horizon_ms=NOW + 1)
    assert (staying.kept.records, staying.horizon_ms) == (1, None)
    assert marker_verdict(retention(), kind, horizon_ms=NOW) == DROPPED


def test_a_marker_with_data_is_retained_and_names_the_aborted_transaction() -> None:
    rules = retention({}, transactions=TransactionTracker([aborted(5, 6)]))
    settings = {"producer_id": PID, "epoch": 0, "base_sequence": 0, "transactional": True}
    assert verdict(rules, Record(5, 0, b"a", b"1"), **settings)[0] == DROPPED
    decision = marker_verdict(rules, ABORT, horizon_ms=NOW - 1)
    assert (decision.kept.records, decision.horizon_ms, decision.aborted) == (1, None, aborted(5, 6))


def test_the_only_marker_with_a_producers_epoch_is_retained() -> None:
    decision = marker_verdict(retention(marked_epochs={PID: 0}), COMMIT, horizon_ms=NOW - 1)
    assert (decision.kept.records, decision.horizon_ms) == (1, None)
    assert marker_verdict(retention(marked_epochs={PID: 1, 8: 0}), COMMIT, horizon_ms=NOW - 1) == DROPPED


def test_a_marker_below_the_log_start_is_removed() -> None:
    assert marker_verdict(retention(start_offset=7), COMMIT) == DROPPED
    assert marker_verdict(retention(start_offset=6), COMMIT) != DROPPED


def test_the_last_batch_of_an_active_producer_is_retained() -> None:
    rules = retention(last_batches={PID: 9})
    assert rules.must_stay(header(5, 9))
    assert not rules.must_stay(header(5, 8))
    assert not rules.must_stay(header(5, 9, producer_id=8))
    assert not retention(last_batches={-1: 9}).must_stay(
        header(5, 9, producer_id=-1, epoch=-1, base_sequence=-1, transactional=False)
    )


# --- old formats


def test_legacy_tombstones_expire_by_their_own_timestamp() -> None:
    latest = {b"a": 5}
    old, young = NOW - RETENTION, NOW - RETENTION + 1

    def stays(time: int, magic: int, first_dirty: int) -> bool:
        return bool(retention(latest, first_dirty=first_dirty).of_messages([Record(5, time, b"a", None)], magic))

    assert stays(young, 1, 6)
    assert not stays(old, 1, 6)
    assert stays(old, 1, 5), "it is met for the first time"
    assert not stays(-1, 0, 6)
    assert stays(-1, 0, 5)


def test_legacy_messages_follow_the_same_retention() -> None:
    rules = retention({b"a": 5, b"b": 6}, start_offset=3, clean_to=8)
    records = [
        Record(offset, 0, key, b"v")
        for offset, key in ((2, b"c"), (3, b"c"), (4, b"a"), (5, b"a"), (6, b"b"), (7, None), (8, None))
    ]
    assert [record.offset for record in rules.of_messages(records, 1)] == [3, 5, 6, 8]
    rules = retention(offset_map=None, keep=lambda record: record.offset > 5, start_offset=3)
    assert [record.offset for record in rules.of_messages(records, 0)] == [6, 7, 8]
