"""The records of `__share_group_state`, byte for byte and back."""

from __future__ import annotations

import pytest

from kqueue.base.errors import MalformedMessage
from kqueue.share import records
from kqueue.share.record_state import RecordState
from kqueue.share.share_state import SharePartitionKey, ShareState, ShareUpdate
from kqueue.share.state_batches import StateBatch
from kqueue.tests.tables import for_each

KEY = SharePartitionKey("g", bytes(range(16)), 3)
BATCHES = [StateBatch(10, 12, RecordState.AVAILABLE, 2), StateBatch(14, 14, RecordState.ACKNOWLEDGED, 1)]


def test_bytes_of_the_keys() -> None:
    fields = bytes.fromhex("0001 67 000102030405060708090a0b0c0d0e0f 00000003".replace(" ", ""))
    assert records.snapshot_key(KEY) == b"\x00\x00" + fields
    assert records.update_key(KEY) == b"\x00\x01" + fields


def test_bytes_of_a_snapshot() -> None:
    state = ShareState(10, BATCHES[:1], 1, state_epoch=5, leader_epoch=6, snapshot_epoch=7, created_ms=8)
    expected = (
        "0000000000070000000500000006000000000000000a00000000000000080000000000000009"
        "02000000000000000a000000000000000c0000020001000400000001"
    )  # fmt: skip
    assert records.snapshot_value(state, 9).hex() == expected
    assert records.read_snapshot(bytes.fromhex(expected)) == state


def test_an_update() -> None:
    update = ShareUpdate(10, BATCHES, 1, 6)
    assert records.read_update(records.update_value(update, 7)) == update


def test_keys_are_read() -> None:
    assert records.read_key(records.snapshot_key(KEY)) == (KEY, True)
    assert records.read_key(records.update_key(KEY)) == (KEY, False)
    assert records.read_key(b"\x00\x09") is None
    with pytest.raises(MalformedMessage, match="starts with a version"):
        records.read_key(b"\x00")


@for_each(
    "batches",
    [
        [BATCHES[1], BATCHES[0]],
        [StateBatch(3, 2, RecordState.ARCHIVED, 1)],
        [StateBatch(3, 3, 3, 1)],  # type: ignore[arg-type]
    ],
)
def test_wrong_batches(batches: list[StateBatch]) -> None:
    with pytest.raises(MalformedMessage, match="share partition's state"):
        records.read_update(records.update_value(ShareUpdate(0, batches), 0))


def test_an_unknown_version() -> None:
    with pytest.raises(MalformedMessage, match="has version 0, found 1"):
        records.read_snapshot(b"\x00\x01" + bytes(40))
