"""The settings of share groups are those of `GroupConfig`, and groups may have their own."""

from __future__ import annotations

from kqueue.base.config import Config
from kqueue.base.settings import Catalog
from kqueue.groups import config
from kqueue.groups.config import GroupConfig


def test_defaults_and_bounds() -> None:
    values = GroupConfig.of(Config(Catalog(config.SETTINGS), {"group.share.max.size": 3}))
    assert values.share.members_max == 3
    assert values.share.session_timeout == GroupConfig().share.session_timeout
    assert values.share.heartbeat_interval.of({"share.heartbeat.interval.ms": 1}) == 5000
    assert values.share.assignment_interval.of({}) == 1000
