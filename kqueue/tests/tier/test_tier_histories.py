"""Tiers that several leaders have written, some of them elected unclean: what tools see is the log
of the last one.
"""

from __future__ import annotations

import random

import pytest

from kqueue.log_tools.folder import LogFolder
from kqueue.log_tools.tier.manifest_rebuild import segments_of_objects
from kqueue.log_tools.tier.verification import verify_tier
from kqueue.tests.tier.test_tier_storage import local_values, storage_of, values
from kqueue.tests.tier.tiered_logs import ORDERS
from kqueue.tests.tier.tiers import copied_by_next_leader, copied_log, put_records
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.memory import MemoryTierStore


@pytest.mark.parametrize("seed", range(6))
def test_tools_see_the_log_of_the_last_leader_and_rebuild_the_manifest_from_objects(seed: int) -> None:
    rng = random.Random(seed)
    store = MemoryTierStore()
    put_records(store)
    log = copied_log(store, rng.randrange(10, 40))
    for epoch in range(1, 4):
        kept = rng.choice([None, rng.randrange(1, log.end_offset)])
        while kept is not None and kept % 10 == 5:  # between a record and the marker that ends its transaction
            kept = rng.randrange(1, log.end_offset)
        log = copied_by_next_leader(store, log, rng.randrange(30), kept=kept, epoch=epoch)
    manifest = Manifest.open(store, ORDERS)
    assert values(LogFolder(storage_of(store), "orders-0")) == local_values(log, manifest.end_offset)
    assert verify_tier(store, checksums=True).verification.findings == []
    segments = list(manifest.segments())
    rebuilt = segments_of_objects(store, ORDERS)
    if not segments[-1].is_cut:  # else no object says so
        assert rebuilt.segments == segments
