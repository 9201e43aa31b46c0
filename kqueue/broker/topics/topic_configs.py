"""Checks of a topic's own settings, of a new topic or a changed one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kqueue.base.config import Config, TopicConfig
from kqueue.base.errors import InvalidConfig, PluginError, SettingError
from kqueue.broker.config_changes import check_size
from kqueue.broker.tier_config import SYSTEM_ENABLE
from kqueue.broker.topics.tiered_topics import TIERED, check_tiered
from kqueue.records.partitioners import PARTITIONERS

PARTITIONER = "kqueue.partitioner"
BACKLOG_ENTRY = "kqueue.backlog"
"""The entry of DescribeConfigs that shows a state and is no setting."""


def config_of_new(config: Config, overrides: Mapping[str, str | None]) -> TopicConfig:
    """Return the settings of a new topic. Raises InvalidConfig, PolicyViolation."""
    unset = [key for key, value in overrides.items() if value is None]
    if unset:
        raise InvalidConfig(
            f"Null value not supported for topic configs: {','.join(unset)}: setting {unset[0]} has no value"
        )
    check_size("topic", overrides)
    return check_configs(config, overrides, {})


def check_configs(
    config: Config, overrides: Mapping[str, Any], old: Mapping[str, Any], *, is_internal: bool = False
) -> TopicConfig:
    """Return the settings of a topic with these overrides in place of `old`.

    Raises: InvalidConfig.
    """
    # tools write all that is described back
    overrides = {name: value for name, value in overrides.items() if name != BACKLOG_ENTRY}
    try:
        checked = config.for_topic(overrides)
        if checked.overrides.get(PARTITIONER) != old.get(PARTITIONER):
            # only where it changes: an existing topic may name a removed partitioner
            PARTITIONERS.get(checked[PARTITIONER])
    except (SettingError, PluginError) as error:
        raise InvalidConfig(str(error)) from None
    low, high = checked["min.compaction.lag.ms"], checked["max.compaction.lag.ms"]
    if low > high:
        raise InvalidConfig(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high}): expected "
            f"min.compaction.lag.ms of at most max.compaction.lag.ms={high}, found {low}"
        )
    check_tiered(checked, bool(old.get(TIERED)), is_internal=is_internal)
    return checked


def stored_config(config: Config, name: str, overrides: Mapping[str, str | None]) -> TopicConfig:
    """Return the settings of a stored topic.

    Raises: SettingError: one is unknown now, of a removed plugin or of a newer version; or it needs
        the tier, which is disabled.
    """
    try:
        stored = config.for_topic(overrides)
    except SettingError as error:
        raise SettingError(f"topic {name} was made with a setting that can't be used now: {error}") from None
    if stored[TIERED] and not config[SYSTEM_ENABLE]:
        raise SettingError(
            f"topic {name} has {TIERED}=true, and its records in the tier would be out of reach: expected "
            f"{SYSTEM_ENABLE}=true as long as there is such a topic"
        )
    return stored
