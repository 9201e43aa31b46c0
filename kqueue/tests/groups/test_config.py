from __future__ import annotations

import pytest

from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.base.settings import Catalog
from kqueue.groups.config import SETTINGS, GroupConfig
from kqueue.tests.tables import for_each


def config(**values: object) -> GroupConfig:
    return GroupConfig.of(Config(Catalog(SETTINGS), {name.replace("_", "."): value for name, value in values.items()}))


def test_defaults_are_those_of_the_rows() -> None:
    assert config() == GroupConfig()


def test_a_new_group_does_not_wait_for_more_members_by_default() -> None:
    assert config().initial_rebalance_delay_ms == 0


def test_minutes_become_milliseconds() -> None:
    assert config(offsets_retention_minutes=3).retention_ms == 180_000


def test_every_value_comes_from_its_setting() -> None:
    assert config(
        group_initial_rebalance_delay_ms=1,
        group_min_session_timeout_ms=2,
        group_max_session_timeout_ms=3,
        group_max_size=4,
        offset_metadata_max_bytes=5,
        offsets_commit_timeout_ms=6,
        offsets_retention_minutes=7,
        offsets_retention_check_interval_ms=8,
        kqueue_max_groups=9,
        kqueue_max_group_bytes=10,
        kqueue_max_groups_bytes=11,
        kqueue_max_pending_members=12,
        kqueue_max_offsets_bytes=13,
    ) == GroupConfig(1, 2, 3, 4, 9, 10, 11, 12, 13, 5, 6, 420_000, 8)


@for_each(
    "name, value",
    [
        ("group.max.size", 0),
        ("group.initial.rebalance.delay.ms", -1),
        ("offsets.retention.minutes", 0),
        ("offsets.topic.num.partitions", 0),
        ("offsets.topic.replication.factor", 0),
    ],
)
def test_invalid_setting_is_refused(name: str, value: int) -> None:
    with pytest.raises(SettingError):
        Config(Catalog(SETTINGS), {name: value})


def test_replication_factor_may_be_left_to_the_broker() -> None:
    assert Config(Catalog(SETTINGS), {"offsets.topic.replication.factor": -1})["offsets.topic.replication.factor"] == -1
