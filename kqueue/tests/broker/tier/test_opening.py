from __future__ import annotations

import pytest

from kqueue.base.errors import SettingError
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.tier.tiered_brokers import STORES, FailingStore
from kqueue.tests.tables import for_each
from kqueue.tier.stores.memory import MemoryTierStore

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


def test_secret_in_the_url_is_refused_as_settings_are_shown() -> None:
    STORES["a?token=hunter2"] = FailingStore(MemoryTierStore())
    with pytest.raises(
        SettingError, match="tests://a has the option token, a secret that settings would show"
    ) as refused:
        Simulation({ENABLED: True, "kqueue.tier.url": "tests://a?token=hunter2"})
    assert "hunter2" not in str(refused.value)
