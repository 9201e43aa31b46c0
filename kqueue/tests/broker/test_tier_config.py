from __future__ import annotations

import pytest

from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.broker.tier_config import SETTINGS
from kqueue.testing.simulation import CATALOG


def test_tier_is_disabled_by_default() -> None:
    config = Config(CATALOG)
    assert config["remote.log.storage.system.enable"] is False
    assert config["kqueue.tier.url"] is None


def test_bounds_of_the_tier_are_finite_and_positive() -> None:
    for row in SETTINGS:
        if row.name.endswith(("threads", "size", "tasks", ".ms")):
            assert row.default > 0
            with pytest.raises(SettingError, match="at least 1"):
                row.parse("0")


def test_tier_is_named_by_a_url() -> None:
    with pytest.raises(SettingError, match="expected text, a URL, such as s3://bucket/prefix"):
        Config(CATALOG, {"kqueue.tier.url": "/a/folder"})
    with pytest.raises(SettingError) as failure:
        Config(CATALOG, {"kqueue.tier.url": "bucket?secret_access_key=hunter2"})
    assert "hunter2" not in str(failure.value)
