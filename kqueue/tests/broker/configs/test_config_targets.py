from __future__ import annotations

import json

import pytest

from kqueue.base.config import Config, ConfigSource
from kqueue.base.errors import InvalidRequest, KqueueError, SettingError, StorageFailed
from kqueue.base.settings import ANY, Catalog, Scope, Setting, SettingType, UpdateMode
from kqueue.broker.configs.config_targets import BrokerTarget
from kqueue.config.catalog import CATALOG
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
def sim() -> Simulation:
    return Simulation()


@pytest.fixture
def target(config: Config, sim: Simulation) -> BrokerTarget:
    target = BrokerTarget(config, 7, sim.broker.metadata.cache)
    target.load()
    return target


def change(sim: Simulation, target: BrokerTarget, resource: str, **values: int) -> None:
    """Store values of a resource; the target follows its record."""
    errors: list[KqueueError | None] = []
    sim.broker.metadata.cache.commit("change settings", dict([target.record(resource, values)]), errors.append)
    sim.settle()
    assert errors == [None]


def test_the_update_mode_decides_where_a_setting_can_be_set(target: BrokerTarget) -> None:
    assert target.check("7", {"own": "1", "all": "2"}).values == {"own": 1, "all": 2}
    assert target.check("", {"all": "2"}).values == {"all": 2}
    with pytest.raises(InvalidRequest, match="own can be changed for one broker only"):
        target.check("", {"own": "1"})
    for name in ("7", ""):
        with pytest.raises(InvalidRequest, match="fixed can't be changed at run time"):
            target.check(name, {"fixed": "1"})


def test_a_brokers_own_value_counts_before_the_default_of_all(
    sim: Simulation, target: BrokerTarget, config: Config
) -> None:
    change(sim, target, "", all=2)
    assert config["all"] == 2
    change(sim, target, "7", all=3)
    assert config["all"] == 3
    assert config.set_by(ConfigSource.STATIC_BROKER) == {"all": 1}
    change(sim, target, "7")
    assert target.in_force("7", target.find("all")) == 2


def test_a_check_of_an_observer_refuses_values(sim: Simulation, target: BrokerTarget, config: Config) -> None:
    def check(changed: Config) -> None:
        if changed["all"] + changed["own"] > 5:
            raise SettingError("too much")

    config.observe(["all"], lambda: None, check)
    change(sim, target, "7", own=3)
    assert target.check("7", {"own": 3, "all": 2}).values
    with pytest.raises(InvalidRequest, match="too much"):
        target.check("7", {"own": 3, "all": 3})
    assert target.check("7", {"own": 9, "all": 1}).values  # `all` does not change, so it is not checked


def test_a_damaged_record_fails_the_start() -> None:
    sim = Simulation()
    sim.store.commit({}, {"/configs/groups/g": b"[1"}, [])
    with pytest.raises(StorageFailed, match="/configs/groups/g can't be read"):
        Simulation(store=sim.store)


class Reversing:
    """A sealer that anybody can undo."""

    def seal(self, name: str, secret: str) -> str:
        return secret[::-1]

    def unseal(self, name: str, sealed: str) -> str:
        if sealed == "damaged":
            raise StorageFailed("it is damaged")
        return sealed[::-1]


@pytest.mark.parametrize("sealer", [Reversing(), None])
def test_secrets_of_this_broker_are_sealed_where_there_is_a_sealer(
    sealer: Reversing | None, sim: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    target = BrokerTarget(Config(CATALOG), 7, sim.broker.metadata.cache, sealer)
    secret, plain = "listener.name.l.ssl.key.password", "log.retention.ms"
    _, stored = target.record("7", {secret: "hidden", plain: 5})
    assert stored is not None
    assert json.loads(stored) == {secret: {"sealed": "neddih"} if sealer else "hidden", plain: "5"}
    _, shared = target.record("", {secret: "hidden"})
    assert shared is not None
    assert json.loads(shared) == {secret: "hidden"}, "other brokers may have other keys"
    target._apply("7", json.dumps({secret: {"sealed": "neddih"}, plain: "6"}).encode())
    assert target.own("7") == {**({secret: "hidden"} if sealer else {}), plain: 6}
    target._apply("7", json.dumps({secret: {"sealed": "damaged"}, plain: "7"}).encode())
    assert target.own("7") == {plain: 7}
    assert f"a stored setting of the broker is ignored, set it again: {secret}: " in caplog.text
    assert "hidden" not in caplog.text


def test_a_secret_is_not_stored_where_the_sealer_fails(sim: Simulation) -> None:
    class Broken(Reversing):
        def seal(self, name: str, secret: str) -> str:
            raise OSError(secret)

    target = BrokerTarget(Config(CATALOG), 7, sim.broker.metadata.cache, Broken())
    with pytest.raises(StorageFailed, match=r"could not encrypt ssl\.key\.password: OSError") as raised:
        target.record("7", {"ssl.key.password": "hidden"})
    assert "hidden" not in str(raised.value)
