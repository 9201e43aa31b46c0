from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kqueue.testing
from kqueue.base.config import Config
from kqueue.base.errors import PluginError, SettingError
from kqueue.config.catalog import CATALOG
from kqueue.config.plugins import (
    CONTRACTS,
    PluginObjects,
    metadata_store_factory,
    metadata_store_name,
    register_plugins,
    storage_factory,
)
from kqueue.groups.assignors import ASSIGNORS
from kqueue.log.policies import POLICIES
from kqueue.records.codecs import CODECS
from kqueue.records.partitioners import PARTITIONERS, make_partitioner
from kqueue.storage import LocalStorage
from kqueue.testing.process_environment import process_environment
from kqueue.tests.cli.plugins.installed import add_distribution
from kqueue.tests.config.configs import read_config
from kqueue.tests.plugged import MARKED, NAMED_GZIP, NEVER, KeptStore, LastPartition, MarkedCodec, OtherStorage
from kqueue.tests.tables import for_each

HERE = "kqueue.tests.plugged"


def config(**values: object) -> Config:
    return Config(CATALOG, {name.replace("_", "."): value for name, value in values.items()})


def test_every_contract_has_its_registry_setting_and_checker() -> None:
    assert [row.kind for row in CONTRACTS] == [
        "codec",
        "partitioner",
        "assignor",
        "cleanup-policy",
        "storage",
        "metadata-store",
        "authorizer",
        "tier-store",
        "command",
    ]
    for row in CONTRACTS[:-1]:
        assert row.registry is not None
        assert row.registry.group == row.group
        assert row.setting in CATALOG.broker or (row.kind, row.setting) == ("tier-store", None)
        assert row.checker is not None
        assert callable(getattr(kqueue.testing, row.checker))
    assert CONTRACTS[-1][1:] == ("kqueue.commands", None, None, None)


def test_plugins_of_settings_are_registered_while_a_broker_runs() -> None:
    settings = config(
        kqueue_codecs=f"{HERE}:MARKED,{HERE}:NAMED_GZIP",
        kqueue_partitioners=f"last={HERE}:LastPartition",
        kqueue_cleanup_policies=f"{HERE}:NEVER,delete",
        group_consumer_assignors="uniform,first=kqueue.tests.groups.assignors.plugins:FirstTakesAll",
    )
    with register_plugins(settings):
        assert CODECS.get("marked").compress(b"x").startswith(b"mine:")
        assert CODECS.entry("marked").origin == f"settings ({HERE}:MARKED)"
        assert (CODECS.get("gzip").name, CODECS.by_id(1)) == ("named-gzip", CODECS.get("named-gzip"))
        assert make_partitioner("last").partition(b"key", 9) == 8
        assert POLICIES.get("never") is NEVER
        assert ASSIGNORS.entry("first").origin == "settings (kqueue.tests.groups.assignors.plugins:FirstTakesAll)"
        with register_plugins(settings):  # another broker with the same settings
            pass
        assert POLICIES.get("never") is NEVER
    assert CODECS.by_id(5) is None
    assert CODECS.get("gzip").name == "gzip"
    for registry, name in ((CODECS, "marked"), (PARTITIONERS, "last"), (POLICIES, "never"), (ASSIGNORS, "first")):
        assert name not in registry.names()  # type: ignore[attr-defined]


def test_objects_are_registered_while_a_broker_runs() -> None:
    objects = PluginObjects(codecs=[MARKED, NAMED_GZIP], partitioners={"last": LastPartition}, cleanup_policies=[NEVER])
    with register_plugins(config(), objects):
        assert CODECS.entry("gzip").title("codec") == "codec 'named-gzip' of Broker(...)"
        assert PARTITIONERS.entry("last").origin == "Broker(...)"
        assert POLICIES.get("never") is NEVER
    assert CODECS.entry("gzip").origin == "kqueue"


def test_failed_registration_removes_earlier_ones() -> None:
    objects = PluginObjects(codecs=[MARKED], partitioners={"last": LastPartition, "murmur2": LastPartition})
    with (
        pytest.raises(PluginError, match="'murmur2' .* is already held by 'murmur2' of kqueue"),
        register_plugins(config(), objects),
    ):
        pass
    assert CODECS.by_id(5) is None
    assert "last" not in PARTITIONERS.names()


@for_each(
    "setting, value, words",
    [
        ("kqueue.codecs", "gzp", "kqueue.codecs=gzp: no codec is called 'gzp'; did you mean 'gzip'?"),
        (
            "kqueue.codecs",
            "no_module:X",
            "kqueue.codecs=no_module:X: codec 'no_module:X': module 'no_module' can't be imported: Module",
        ),
        ("kqueue.codecs", f"{HERE}:MARKD", f"kqueue.codecs={HERE}:MARKD: .* has no 'MARKD'; did you mean 'MARK"),
        ("kqueue.codecs", f"{HERE}:NO_CODEC", "expected an id from 1 to 7, found None"),
        ("kqueue.partitioners", f"{HERE}:LastPartition", "expected name=module:Class"),
        ("kqueue.partitioners", f"murmur2={HERE}:LastPartition", "already held by 'murmur2' of kqueue"),
        ("kqueue.partitioners", f"x={HERE}:NO_CODEC", "expected a class, or a callable that takes a random.Random"),
        ("kqueue.cleanup.policies", f"{HERE}:NeverPolicy", "expected an instance, found the class NeverPolicy"),
        ("kqueue.cleanup.policies", "delet", "did you mean 'delete'"),
        ("group.consumer.assignors", "unifrm", "group.consumer.assignors=unifrm: no assignor is called 'unifrm'; did"),
        ("group.consumer.assignors", f"{HERE}:LastPartition", "expected name=module:Class"),
        ("group.consumer.assignors", f"x={HERE}:NO_CODEC", "expected a class, or a callable without arguments"),
        ("group.consumer.assignors", f"range={HERE}:LastPartition", "already held by 'range' of kqueue"),
    ],
)
def test_unusable_plugin_is_reported_with_its_setting(setting: str, value: str, words: str) -> None:
    with pytest.raises(SettingError, match=words), register_plugins(Config(CATALOG, {setting: value})):
        pass


@for_each(
    "setting, value, words",
    [
        ("kqueue.storage", "lokal", "kqueue.storage=lokal: no storage is called 'lokal'; did you mean 'local'?"),
        ("kqueue.storage", "", "expected text, local, memory"),
        (
            "kqueue.metadata",
            "sqlit",
            "kqueue.metadata=sqlit: no metadata store is called 'sqlit'; did you mean 'sqlite'?",
        ),
    ],
)
def test_names_are_known_when_the_settings_are_read(setting: str, value: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        Config(CATALOG, {setting: value})


def test_storages_and_stores_are_made_by_name_path_or_callable(tmp_path: Path) -> None:
    assert storage_factory(config()) is LocalStorage
    make = storage_factory(config(kqueue_storage=f"{HERE}:make_storage"))
    assert type(make(str(tmp_path)).open("a", create=True)).__name__ == "GuardedFile"
    given = PluginObjects(storage=OtherStorage, metadata=lambda folder: KeptStore())
    assert storage_factory(config(), given)(str(tmp_path)).location == str(tmp_path)
    assert metadata_store_factory(config(), given)("").read("/") == {}
    assert metadata_store_factory(config(kqueue_metadata=f"{HERE}:open_store"))("a folder of a test").read("/") == {}
    for setting, ask in (("kqueue.storage", storage_factory), ("kqueue.metadata", metadata_store_factory)):
        for path, words in (
            (f"{HERE}:make_nothing", "found NoneType without the method"),
            ("no_module:x", "can't be imported"),
        ):
            with pytest.raises(SettingError, match=f"{setting}={path}: .*{words}"):
                ask(Config(CATALOG, {setting: path}))("")  # type: ignore[operator]


def test_metadata_store_defaults_to_the_log_storage() -> None:
    assert metadata_store_name(config()) == "sqlite"
    assert metadata_store_name(config(kqueue_storage="memory")) == "memory"
    assert metadata_store_name(config(kqueue_storage="memory", kqueue_metadata="sqlite")) == "sqlite"
    assert metadata_store_name(config(kqueue_storage=f"{HERE}:make_storage")) == "sqlite"


def test_a_brokers_default_may_name_a_policy_that_a_setting_brings() -> None:
    values = read_config(pairs=[f"kqueue.cleanup.policies={HERE}:NEVER", "log.cleanup.policy=never"])
    assert values["log.cleanup.policy"] == ["never"]
    with pytest.raises(SettingError, match="no cleanup policy is called 'never'"):
        read_config(pairs=["log.cleanup.policy=never"])


def test_two_brokers_of_a_process_can_not_serve_one_id_by_two_codecs() -> None:
    other: Any = MarkedCodec("other", 1)
    with (
        register_plugins(config(), PluginObjects(codecs=[NAMED_GZIP])),
        pytest.raises(PluginError, match="'other' of .* can't serve id 1: 'named-gzip' of .* is preferred"),
        register_plugins(config(), PluginObjects(codecs=[other])),
    ):
        pass
    assert CODECS.get("gzip").name == "gzip"


def test_no_plugin_is_loaded_without_a_setting() -> None:
    code = (
        "import importlib.metadata as m; asked = []; real = m.entry_points\n"
        "m.entry_points = lambda **named: asked.append(named) or real(**named)\n"
        "import kqueue\n"
        "with kqueue.Broker() as broker: broker.create_topic('t', cleanup_policy='compact')\n"
        "assert not asked, asked\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


ASKS = """
import sys
import kqueue
from confluent_kafka import Consumer
from kqueue.tests.waits import HangLimit

def ask(settings):
    with kqueue.Broker(settings=settings) as broker:
        broker.create_topic("t")
        consumer = Consumer({
            "bootstrap.servers": broker.bootstrap, "group.id": "g",
            "group.protocol": "consumer", "group.remote.assignor": "mine",
        })
        consumer.subscribe(["t"])
        limit = HangLimit("an assignment, or an error")
        message = None
        while message is None and not consumer.assignment():
            limit.check()
            message = consumer.poll(0.1)
        print(message.error().name() if message else len(consumer.assignment()), "my_assignor" in sys.modules)
        consumer.close()

ask({})
ask({"group.consumer.assignors": "uniform,mine"})
"""


@pytest.mark.long
def test_an_installed_assignor_is_loaded_if_the_setting_names_it_and_not_because_a_member_asks(tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka")
    add_distribution(tmp_path, "my-assignor", "1.0", {"kqueue.assignors": {"mine": "my_assignor:FirstTakesAll"}})
    (tmp_path / "my_assignor.py").write_text("from kqueue.tests.groups.assignors.plugins import FirstTakesAll\n")
    ran = subprocess.run(
        [sys.executable, "-c", ASKS],
        env=process_environment(PYTHONPATH=os.pathsep.join((str(tmp_path), *sys.path))),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.stdout.splitlines() == ["_FATAL False", "1 True"], ran.stderr
