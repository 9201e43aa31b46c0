from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from kqueue.tests.tier.segment_entries import entries, entry
from kqueue.tests.tier.tiered_logs import ORDERS
from kqueue.tier.errors import TierCorrupt
from kqueue.tier.formats.segments import EPOCHS_MAX, SEGMENT_BYTES_MAX, TieredSegment, read_segment


@given(entries())
def test_entry_is_read_as_it_was_written(segment: TieredSegment) -> None:
    assert read_segment(json.loads(json.dumps(segment.to_json()))) == segment


def test_key_is_that_of_the_partition() -> None:
    segment = entry(5, 9, base_offset=3)
    assert segment.key(ORDERS) == ORDERS.segment_key(3, segment.object_id)


@pytest.mark.parametrize(
    "fields",
    [
        {"object": "x" * 32},
        {"object": 5},
        {"base": 6},
        {"base": -1},
        {"start": 9},
        {"end": 5},
        {"end": 2**63},
        {"unstable": 10},
        {"size": SEGMENT_BYTES_MAX + 1},
        {"time": -2},
        {"crc32c": 5},
        {"indexes": [1, 2, 3, 4]},
        {"indexes": [SEGMENT_BYTES_MAX, 1, 0, 0, 0]},
        {"indexes_crc32c": None},
        {"epochs": [[0, 4]]},
        {"epochs": [[0, 9]]},
        {"epochs": [[1, 5], [1, 6]]},
        {"epochs": [[1, 6], [2, 6]]},
        {"epochs": [[2**31, 5]]},
        {"epochs": [[0, 5]] * (EPOCHS_MAX + 1)},
        {"leader_epoch": -1},
        {"broker": -2},
        {"copied_ms": 1.5},
        {"cut": 2},
        {"cut": True},
    ],
)
def test_entry_with_a_wrong_field_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(TierCorrupt, match="a segment of the manifest: expected "):
        read_segment(entry(5, 9).to_json() | fields)


def test_entry_without_a_field_is_refused() -> None:
    values = entry(5, 9).to_json()
    for name in values:
        with pytest.raises(TierCorrupt):
            read_segment({key: value for key, value in values.items() if key != name})


def test_cut_entry_has_no_epochs_behind_its_end_and_does_not_know_open_transactions() -> None:
    cut = entry(0, 30, epochs=((1, 0), (2, 10), (3, 20)), unstable_offset=30).cut(20)
    assert (cut.end_offset, cut.epochs, cut.unstable_offset, cut.is_cut) == (20, ((1, 0), (2, 10)), 0, True)
    assert read_segment(cut.to_json()) == cut
