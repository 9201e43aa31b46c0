from __future__ import annotations

import pytest

from kqueue.log_tools.tier.takeover import take_over
from kqueue.tests.tier.tiers import put
from kqueue.tier.catalog import read_tier_record
from kqueue.tier.errors import ObjectChanged
from kqueue.tier.formats.json_document import JSON_BYTES_MAX
from kqueue.tier.formats.keys import TIER_KEY
from kqueue.tier.formats.tier_record import TierRecord
from kqueue.tier.stores.contract import Version
from kqueue.tier.stores.memory import MemoryTierStore


def test_tier_keeps_the_time_of_its_first_record() -> None:
    store = MemoryTierStore()
    take_over(store, "first", 1000)
    take_over(store, "second", 2000)
    assert read_tier_record(store) == TierRecord("second", 1000, 1)


@pytest.mark.parametrize("damaged", [b"", b"x", bytes(JSON_BYTES_MAX + 1)])
def test_damaged_record_is_replaced(damaged: bytes) -> None:
    store = MemoryTierStore()
    put(store, TIER_KEY, damaged)
    take_over(store, "ours", 1000)
    assert read_tier_record(store) == TierRecord("ours", 1000)


def test_takeover_of_two_clusters_at_once_succeeds_once() -> None:
    class Racing(MemoryTierStore):
        def put_if(self, key: str, body: bytes, expected: Version | None) -> Version:
            put(self, key, b"other")
            return super().put_if(key, body, expected)

    with pytest.raises(ObjectChanged):
        take_over(Racing(), "ours", 1000)
