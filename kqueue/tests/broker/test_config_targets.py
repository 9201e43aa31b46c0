from __future__ import annotations

import pytest

from kqueue.base.errors import InvalidRequest, SettingError, StorageFailed
from kqueue.base.settings import (
    ANY,
    Catalog,
    Config,
    ConfigSource,
    Scope,
    Setting,
    SettingType,
    UpdateMode,
)
from kqueue.broker.config_targets import BrokerTarget
from kqueue.testing.simulation import Simulation

ROWS = [
    Setting(name, SettingType.INT, 0, ANY, Scope.BROKER, "A number.", dynamic=mode)
    for name, mode in [
        ("fixed", UpdateMode.READ_ONLY),
        ("own", UpdateMode.PER_BROKER),
        ("all", UpdateMode.CLUSTER_WIDE),
    ]
]


@pytest.fixture
def config() -> Config:
    return Config(Catalog(ROWS), {"all": 1})


@pytest.fixture
def target(config: Config) -> BrokerTarget:
    return BrokerTarget(config, 7, Simulation().broker.metadata)


def test_the_update_mode_decides_where_a_setting_can_be_set(target: BrokerTarget) -> None:
    assert target.check("7", {"own": "1", "all": "2"}) == {"own": 1, "all": 2}
    assert target.check("", {"all": "2"}) == {"all": 2}
    with pytest.raises(InvalidRequest, match="own can be changed for one broker only"):
        target.check("", {"own": "1"})
    for name in ("7", ""):
        with pytest.raises(InvalidRequest, match="fixed can't be changed at run time"):
            target.check(name, {"fixed": "1"})


def test_a_brokers_own_value_counts_before_the_default_of_all(target: BrokerTarget, config: Config) -> None:
    target.apply("", {"all": 2})
    assert config["all"] == 2
    target.apply("7", {"all": 3})
    assert config["all"] == 3
    assert config.set_by(ConfigSource.STATIC_BROKER) == {"all": 1}
    target.apply("7", {})
    assert target.in_force("7", target.find("all")) == 2


def test_a_check_of_an_observer_refuses_values(target: BrokerTarget, config: Config) -> None:
    def check(changed: Config) -> None:
        if changed["all"] + changed["own"] > 5:
            raise SettingError("too much")

    config.observe(["all"], lambda: None, check)
    target.apply("7", {"own": 3})
    assert target.check("7", {"own": 3, "all": 2})
    with pytest.raises(InvalidRequest, match="too much"):
        target.check("7", {"own": 3, "all": 3})
    assert target.check("7", {"own": 9, "all": 1})  # `all` does not change, so it is not checked


def test_a_damaged_record_fails_the_start() -> None:
    sim = Simulation()
    sim.store.commit({}, {"/configs/groups/g": b"[1"}, [])
    with pytest.raises(StorageFailed, match="/configs/groups/g can't be read"):
        Simulation(store=sim.store)
