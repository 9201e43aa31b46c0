from __future__ import annotations

import pytest

from kqueue.base.config import Config, ConfigSource
from kqueue.broker.tier.copies import CopyRate, local_only_bytes, next_to_copy, uncopied
from kqueue.broker.tier_config import COPY_RATE
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.simulation import CATALOG
from kqueue.tests.broker.tier.tiered_brokers import TieredClient
from kqueue.tier.errors import TierUnavailable


def test_oldest_sealed_segment_is_copied_once_it_is_committed() -> None:
    client = TieredClient()
    partition = client.topic().partition(0)
    assert next_to_copy(partition) is None
    client.fill(6)
    source = next_to_copy(partition)
    assert source is not None
    assert (source.base_offset, source.start_offset, source.end_offset) == (0, 0, 2)
    assert uncopied(partition.log) == (2, 2 * source.size)
    partition.log.tiered_end = 3
    source = next_to_copy(partition)
    assert source is not None
    assert (source.base_offset, source.start_offset, source.end_offset) == (2, 3, 4)


def test_bytes_that_only_the_disk_has_count_from_the_end_of_the_tier() -> None:
    client = TieredClient()
    partition = client.topic().partition(0)
    client.fill(6)
    sizes = [segment.size for segment in partition.log.segments]
    assert local_only_bytes(partition.log) == sum(sizes)
    partition.log.tiered_end = 4
    assert local_only_bytes(partition.log) == sizes[-1]


def test_rate_of_copies_is_counted_and_changed_at_run_time() -> None:
    config, clock = Config(CATALOG, {COPY_RATE: 1000}), ManualClock()
    rate = CopyRate(config, clock)
    rate.spend(1000)
    rate.spend(0)  # no debt: it does not wait
    config.set_dynamic(ConfigSource.DYNAMIC_DEFAULT_BROKER, {COPY_RATE: 10**9})
    clock.advance(1000)
    rate.spend(10**6)


def test_stop_ends_copies_that_wait() -> None:
    rate = CopyRate(Config(CATALOG, {COPY_RATE: 1}), ManualClock())
    rate.spend(10**6)
    rate.stop()
    with pytest.raises(TierUnavailable, match="the broker stops"):
        rate.spend(1)
