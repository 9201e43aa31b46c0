from __future__ import annotations

import pytest

from kqueue.base.config import Config, ConfigSource
from kqueue.base.config_resources import ConfigChange, ConfigOperation, ResourceType
from kqueue.base.errors import InvalidConfig, SettingError
from kqueue.broker.configs.dynamic_configs import ConfigResource
from kqueue.broker.topics.topic_configs import check_configs, config_of_new, stored_config
from kqueue.broker.topics.topics import SHARE_TOPIC, NewTopic
from kqueue.testing.simulation import CATALOG, Simulation
from kqueue.tests.tables import for_each

ENABLED = Config(CATALOG, {"remote.log.storage.system.enable": True, "kqueue.tier.url": "memory://tests"})
TIERED = {"remote.storage.enable": "true"}


@for_each(
    "configs",
    [
        {},
        {"cleanup.policy": ""},
        {"local.retention.ms": "5", "retention.ms": "6", "local.retention.bytes": "7", "retention.bytes": "7"},
        {"local.retention.ms": "5", "retention.ms": "-1", "local.retention.bytes": "-1"},
        {"remote.log.copy.disable": "true"},
        {"remote.log.copy.disable": "true", "local.retention.ms": "6", "retention.ms": "6"},
    ],
)
def test_tiered_topic_may_have_a_local_retention_up_to_the_total(configs: dict[str, str]) -> None:
    assert config_of_new(ENABLED, {**TIERED, **configs})["remote.storage.enable"] is True


@for_each(
    "configs, words",
    [
        (
            {"cleanup.policy": "compact"},
            "can't be compacted: expected cleanup.policy=delete, or an empty one, found cleanup.policy=compact",
        ),
        ({"cleanup.policy": "delete,compact"}, "found cleanup.policy=delete,compact"),
        ({"cleanup.policy": "consumed"}, "found cleanup.policy=consumed"),
        (
            {"local.retention.ms": "7", "retention.ms": "6"},
            "local.retention.ms: expected -2 or at most retention.ms=6, .* found 7",
        ),
        (
            {"local.retention.bytes": "-1", "retention.bytes": "6"},
            "local.retention.bytes: expected -2 or at most retention.bytes=6, .* found -1",
        ),
        (
            {"remote.log.copy.disable": "true", "local.retention.ms": "5"},
            "local.retention.ms: expected -2 or retention.ms=.*, because remote.log.copy.disable=true.* found 5",
        ),
    ],
)
def test_settings_that_a_tiered_topic_can_not_have_are_refused_as_kafka_refuses_them(
    configs: dict[str, str], words: str
) -> None:
    with pytest.raises(InvalidConfig, match=words):
        config_of_new(ENABLED, {**TIERED, **configs})
    if "remote.log.copy.disable" not in configs:
        config_of_new(ENABLED, configs)  # it is free to have them without a tier


def test_tiered_topic_is_refused_where_the_tier_is_disabled() -> None:
    with pytest.raises(InvalidConfig, match="tiered storage is disabled at this broker.*kqueue.tier.url"):
        config_of_new(Config(CATALOG), TIERED)


def test_disabling_the_tier_of_a_topic_takes_the_deletion_of_what_is_there() -> None:
    with pytest.raises(InvalidConfig, match="would leave the topic's records in the tier out of reach"):
        check_configs(ENABLED, {}, {"remote.storage.enable": True})
    check_configs(ENABLED, {"remote.log.delete.on.disable": "true"}, {"remote.storage.enable": True})
    check_configs(ENABLED, {}, {})


def test_stored_tiered_topic_needs_the_tier_at_the_start() -> None:
    assert stored_config(ENABLED, "t", TIERED)["remote.storage.enable"] is True
    with pytest.raises(SettingError, match="topic t has remote.storage.enable=true"):
        stored_config(Config(CATALOG), "t", TIERED)


def test_dynamic_local_retention_of_the_broker_counts() -> None:
    config = ENABLED.copy()
    config.set_dynamic(ConfigSource.DYNAMIC_DEFAULT_BROKER, {"log.local.retention.ms": 10})
    with pytest.raises(InvalidConfig, match="at most retention.ms=9"):
        config_of_new(config, {**TIERED, "retention.ms": "9"})


def test_internal_topic_is_never_tiered() -> None:
    sim = Simulation({"kqueue.storage": "memory"})
    sim.result(sim.broker.topics.create(NewTopic(SHARE_TOPIC, 1), internal=True))
    change = ConfigChange(ConfigOperation.SET, "remote.storage.enable", "true")
    with pytest.raises(InvalidConfig, match="expected a topic of clients"):
        sim.result(sim.broker.configs.alter(ConfigResource(ResourceType.TOPIC, SHARE_TOPIC), [change]))
