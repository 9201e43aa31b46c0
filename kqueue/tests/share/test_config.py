"""The values of a share group, and their bounds."""

from __future__ import annotations

from typing import Any

from kqueue.base.config import Config
from kqueue.base.settings import Catalog
from kqueue.share.config import SETTINGS, ShareGroupConfig, parse_reset
from kqueue.tests.tables import for_each

CATALOG = Catalog(SETTINGS)


def test_the_defaults_are_those_of_the_settings() -> None:
    assert ShareGroupConfig.of(Config(CATALOG), {}) == ShareGroupConfig()


@for_each(
    "own, lock_ms, limit, locks",
    [
        ({"share.record.lock.duration.ms": 1000, "share.delivery.count.limit": 25}, 15_000, 10, 2000),
        ({"share.record.lock.duration.ms": 3_600_000, "share.partition.max.record.locks": 150}, 60_000, 5, 150),
    ],
)
def test_values_of_a_group_stay_within_the_bounds_of_the_broker(
    own: dict[str, Any], lock_ms: int, limit: int, locks: int
) -> None:
    config = ShareGroupConfig.of(Config(CATALOG), own)
    assert (config.lock_duration_ms, config.delivery_count_limit, config.record_locks_max) == (lock_ms, limit, locks)


@for_each(
    "value, reset",
    [
        ("latest", "latest"),
        ("earliest", "earliest"),
        ("by_duration:PT1H", 3_600_000),
        ("by_duration:P1DT2H3M4.5S", 93_784_500),
    ],
)
def test_offset_reset_is_parsed(value: str, reset: str | int) -> None:
    assert parse_reset(value) == reset
