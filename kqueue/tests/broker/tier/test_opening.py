from __future__ import annotations

import pytest

from kqueue.base.errors import SettingError
from kqueue.testing.simulation import Simulation
from kqueue.tests.tables import for_each

ENABLED = "remote.log.storage.system.enable"


def test_broker_without_the_setting_has_no_tier() -> None:
    broker = Simulation({"kqueue.tier.url": "memory://unused"}).broker
    assert (broker.tier, broker.replicas.host.tier) == (None, None)


@for_each(
    "settings, words",
    [
        ({}, "needs kqueue.tier.url"),
        ({"kqueue.tier.url": "nowhere://x"}, "kqueue.tier.url: nowhere://x"),
        ({"kqueue.tier.url": "file://relative"}, "expected file:///PATH"),
        ({"kqueue.tier.url": "memory://a?key=secret"}, "this store has no options"),
    ],
)
def test_tier_without_a_store_is_refused_at_the_start(settings: dict[str, object], words: str) -> None:
    with pytest.raises(SettingError, match=words) as refused:
        Simulation({ENABLED: True, **settings})
    assert "secret" not in str(refused.value)
