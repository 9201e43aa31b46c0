from __future__ import annotations

import pytest

from kqueue.base.errors import InvalidConfig, SettingError
from kqueue.broker.topics.topic_configs import check_configs, config_of_new, stored_config
from kqueue.testing.simulation import Simulation


def test_a_removed_partitioner_stays_and_a_new_one_must_exist() -> None:
    config = Simulation().broker.config
    gone = {"kqueue.partitioner": "of_a_removed_plugin"}
    assert check_configs(config, gone, gone).overrides == gone
    with pytest.raises(InvalidConfig, match="of_a_removed_plugin"):
        check_configs(config, gone, {})


def test_settings_that_contradict_each_other_are_refused() -> None:
    config = Simulation().broker.config
    with pytest.raises(InvalidConfig, match="expected min.compaction.lag.ms of at most max.compaction.lag.ms=5"):
        config_of_new(config, {"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"})


def test_a_stored_setting_that_is_unknown_now_names_its_topic() -> None:
    with pytest.raises(SettingError, match="topic t was made with a setting that can't be used now"):
        stored_config(Simulation().broker.config, "t", {"of.a.plugin": "1"})
