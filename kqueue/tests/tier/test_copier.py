from __future__ import annotations

from kqueue.tests.log.helpers import append, flush, open_log
from kqueue.tests.tier.tiered_logs import ORDERS, claim, copy_all, log_bytes, read_all, reader_of
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.memory import MemoryTierStore


def test_copied_segments_are_read_back_byte_for_byte() -> None:
    log = open_log()
    for number in range(30):
        append(log, b"%d" % number * 10, leader_epoch=number // 11)
        if number % 7 == 6:
            flush(log)
            log.roll()
    store = MemoryTierStore()
    manifest = Manifest.open(store, ORDERS)
    claim(manifest, log, 3)
    copied = copy_all(store, manifest, log, leader_epoch=3)
    assert len(copied) == 4
    assert manifest.end_offset == 28
    fresh = Manifest.open(store, ORDERS)
    assert list(fresh.segments()) == copied
    assert read_all(reader_of(store), fresh) == log_bytes(log, 28)
    assert reader_of(store).epochs_at(fresh, 28) == [(0, 0), (1, 11), (2, 22)]
