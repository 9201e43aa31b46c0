from __future__ import annotations

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kqueue.console.messages.partition_scans import (
    FAULTS_MAX,
    WINDOW_BYTES,
    BackwardScan,
    ForwardScan,
    ReadBudget,
    ScanSettings,
)
from kqueue.records.batch import BATCH_OVERHEAD, CRC_START, stated_size
from kqueue.tests.console.messages.support import FakeClient, batch, fetched

Scan = ForwardScan | BackwardScan


def settings(count: int = 3, records: int = 10_000, **more: object) -> ScanSettings:
    return ScanSettings(count, ReadBudget(records, 10**9, float("inf")), **more)  # type: ignore[arg-type]


def run(scan: Scan, client: FakeClient) -> Scan:
    for _ in range(100):
        if (offset := scan.fetch_offset) is None:
            return scan
        client.fetches.append({0: offset})
        scan.take(client._answer(0, offset))
    raise AssertionError("the scan does not end")


def offsets(scan: Scan) -> list[int]:
    return [message.offset for message in scan.messages]


BATCHES = [batch([b"x"] * 2, at) for at in range(0, 20, 2)]


def test_forward_finds_the_first_messages_and_where_it_ended() -> None:
    scan = run(ForwardScan(0, 5, 20, settings()), FakeClient({0: BATCHES}))
    assert (offsets(scan), scan.lower, scan.upper) == ([5, 6, 7], 5, 8)


def test_backward_finds_the_last_messages_newest_first() -> None:
    scan = run(BackwardScan(0, 15, 0, settings()), FakeClient({0: BATCHES}))
    assert (offsets(scan), scan.lower, scan.upper) == ([14, 13, 12], 12, 15)


def test_both_end_at_the_ends_of_the_log() -> None:
    forward = run(ForwardScan(0, 18, 20, settings()), FakeClient({0: BATCHES}))
    backward = run(BackwardScan(0, 2, 0, settings()), FakeClient({0: BATCHES}))
    assert (offsets(forward), forward.upper) == ([18, 19], 20)
    assert (offsets(backward), backward.lower) == ([1, 0], 0)


def test_backward_passes_gaps_that_compaction_left() -> None:
    scan = run(BackwardScan(0, 5_001, 0, settings()), FakeClient({0: [batch([b"x"] * 2), batch([b"y"], 5_000)]}))
    assert (offsets(scan), scan.lower) == ([5_000, 1, 0], 0)


def test_cut_goes_back_to_the_first_message_that_is_left_out() -> None:
    forward = run(ForwardScan(0, 0, 20, settings()), FakeClient({0: BATCHES}))
    backward = run(BackwardScan(0, 20, 0, settings()), FakeClient({0: BATCHES}))
    forward.cut(1)
    backward.cut(1)
    assert (offsets(forward), forward.upper) == ([0], 1)
    assert (offsets(backward), backward.lower) == ([19], 19)


def test_only_what_matches_is_kept_and_all_that_was_read_is_passed() -> None:
    wanted = settings(matches=lambda partition, record: record.offset % 7 == 0)
    assert offsets(run(ForwardScan(0, 1, 20, wanted), FakeClient({0: BATCHES}))) == [7, 14]
    assert offsets(run(BackwardScan(0, 20, 0, wanted), FakeClient({0: BATCHES}))) == [14, 7, 0]
    assert wanted.budget.records_read >= 19 + 20


def test_a_record_budget_ends_a_forward_scan_where_it_is() -> None:
    scan = ForwardScan(0, 0, 1_000, settings(1_000, records=200))
    scan.take(fetched(batch([b"x"] * 1_000)))
    assert scan.upper == len(scan.messages) == 256, "looked at every 128 records"


def test_a_backward_scan_leaves_out_a_window_that_it_could_not_finish() -> None:
    scan = BackwardScan(0, 1_000, 0, settings(500, records=100))
    scan.take(fetched(batch([b"x"] * 1_000)))
    assert (scan.messages, scan.lower) == ([], 1_000)


def test_large_records_make_the_window_smaller_until_the_newest_are_found() -> None:
    large = [batch([b"x" * (WINDOW_BYTES // 3)], at) for at in range(60)]
    client = FakeClient({0: large}, chunk=1)
    scan = run(BackwardScan(0, 60, 0, settings(2)), client)
    assert offsets(scan) == [59, 58]
    assert len(client.fetches) < 20


def test_messages_that_take_much_memory_end_a_scan_early() -> None:
    wanted = settings(10, held_bytes=2_500)
    large = [batch([b"x" * 1_000], at) for at in range(10)]
    assert offsets(run(ForwardScan(0, 0, 10, wanted), FakeClient({0: large}))) == [0, 1, 2]


def test_a_broken_batch_is_a_fault_and_the_rest_goes_on() -> None:
    broken = bytearray(batch([b"b", b"b"], 2))
    broken[-1] ^= 1
    client = FakeClient({0: [batch([b"a"] * 2), bytes(broken), batch([b"c"] * 2, 4)]})
    for scan in (ForwardScan(0, 0, 6, settings(9)), BackwardScan(0, 6, 0, settings(9))):
        run(scan, client)
        assert sorted(offsets(scan)) == [0, 1, 4, 5]
        [fault] = scan.faults
        assert (fault.offset, fault.next_offset) == (2, 4)
        assert "checksum" in fault.reason


@pytest.mark.parametrize("data", [b"\xff" * 300, batch([b"old"] * 3), batch([b"x"])[:-1]])
def test_a_broker_that_sends_nonsense_ends_a_scan_with_a_fault(data: bytes) -> None:
    for scan in (ForwardScan(0, 500, 900, settings()), BackwardScan(0, 900, 500, settings())):
        for _ in range(FAULTS_MAX + 2):
            if scan.fetch_offset is not None:
                scan.take(fetched(data))
        assert scan.fetch_offset is None
        assert scan.faults
        assert scan.messages == []


@given(st.lists(st.tuples(st.integers(0, 199), st.integers(0, 255)), min_size=1, max_size=6), st.booleans())
def test_damaged_bytes_never_raise_and_every_scan_ends(damage: list[tuple[int, int]], has_checksum: bool) -> None:
    data = bytearray(batch([b"x" * 20, None, b"y"], 5, codec="zstd") + batch([b"z" * 30], 8))
    for position, value in damage:
        data[position % len(data)] = value
    size = stated_size(data, 0)
    if has_checksum and BATCH_OVERHEAD <= size <= len(data):
        data[17:21] = crc32c(bytes(data[CRC_START:size])).to_bytes(4, "big")
    for scan in (ForwardScan(0, 0, 40, settings()), BackwardScan(0, 40, 0, settings())):
        for _ in range(60):
            if scan.fetch_offset is not None:
                scan.take(fetched(bytes(data)))
        assert scan.fetch_offset is None


def test_a_partition_that_fails_ends_its_scan() -> None:
    for scan in (ForwardScan(0, 0, 9, settings()), BackwardScan(0, 9, 0, settings())):
        scan.fail("no leader")
        assert scan.fetch_offset is None
        assert [fault.reason for fault in scan.faults] == ["no leader"]


def test_a_spent_budget_says_which_limit_it_was() -> None:
    assert ReadBudget(1, 1, float("inf")).spent is None
    assert ReadBudget(1_000, 1, float("inf"), records_read=1_000).spent == "1,000 records"
    assert ReadBudget(1, 2_000, float("inf"), bytes_read=2_000).spent == "2.0 kB"
    assert ReadBudget(1, 1, 0.0).spent == "the time"
