from __future__ import annotations

import pytest

from kqueue.broker.tier.restarts import restart_at, restart_at_end
from kqueue.log.formats.producer_snapshot import decode_snapshot
from kqueue.tests.api.harness import batch
from kqueue.tests.broker.tier.test_tier_reads import tiered
from kqueue.tests.broker.tier.tiered_brokers import TieredClient
from kqueue.tier.errors import TierCorrupt
from kqueue.tier.manifest import Manifest


def test_tier_without_the_partition_gives_no_restart() -> None:
    client = TieredClient()
    state = client.state(client.topic().partition(0))
    assert restart_at_end(client.tier.host.reader, Manifest(client.store, state.manifest.partition)) is None


def test_log_goes_on_with_the_epochs_and_producers_of_all_records_before() -> None:
    client = TieredClient()
    partition = client.topic().partition(0)
    for number in range(8):
        client.produce("t", batch(b"p", producer_id=9, epoch=0, base_sequence=number))
    client.tick()
    manifest, reader = client.state(partition).manifest, client.tier.host.reader
    end = restart_at_end(reader, manifest)
    assert end is not None
    assert end.offset == manifest.end_offset == partition.log.tiered_end
    assert (end.state.start_offset, end.state.epochs) == (0, partition.log.epochs.entries())
    state = restart_at(reader, manifest, 3)
    ((producer, entry),) = decode_snapshot(state.producer_snapshot, 3).items()
    assert (producer, entry.batches[-1].last_sequence) == (9, 2)


def test_log_goes_on_at_a_log_start_beyond_the_end_of_the_tier() -> None:
    client = TieredClient()
    partition = client.topic().partition(0)
    for number in range(10):
        client.produce("t", batch(b"p", producer_id=9, epoch=0, base_sequence=number))
    client.tick()
    manifest = client.state(partition).manifest
    assert manifest.end_offset == 8
    manifest.raise_start(partition.leader_epoch, 9)  # DeleteRecords, in the active segment
    end = restart_at_end(client.tier.host.reader, manifest)
    assert end is not None
    assert (end.offset, end.state.start_offset, end.state.epochs) == (9, 9, [])
    ((producer, _),) = decode_snapshot(end.state.producer_snapshot, 9).items()
    assert producer == 9


def test_state_beyond_the_end_of_the_tier_is_refused() -> None:
    client = tiered(10)
    manifest = client.state(client.sim.broker.topics.get("t").partition(0)).manifest
    with pytest.raises(TierCorrupt, match="t-0: the tier ends at 8, expected it to have 9"):
        restart_at(client.tier.host.reader, manifest, 9)
