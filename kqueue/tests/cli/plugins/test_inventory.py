from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from kqueue import __version__
from kqueue.base.registry import Registry
from kqueue.cli.plugins.inventory import Plugin, built_in_names, plugins_of, sections
from kqueue.cli.plugins.usage import Usage
from kqueue.config.plugins import CONTRACTS, Contract
from kqueue.tests.cli.plugins.installed import add_distribution

OURS = f"kqueue {__version__}"
MODULE = """\
import click

class Thing:
    def __init__(self, id=None):
        self.id = id

FAST, PLAIN = Thing(1), Thing()

@click.command()
def greet():
    pass
"""


@pytest.fixture
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution with things of the groups test.things and test.commands, good and bad ones."""
    (tmp_path / "things_of_a_plugin.py").write_text(MODULE)
    points = {
        "test.things": {
            "fast": "things_of_a_plugin:FAST",
            "plain": "things_of_a_plugin:PLAIN",
            "broken": "things_of_a_plugin:NOTHING",
        },
        "test.commands": {
            "greet": "things_of_a_plugin:greet",
            "topics": "things_of_a_plugin:greet",
            "odd": "things_of_a_plugin:FAST",
        },
    }
    add_distribution(tmp_path, "many-things", "1.5", points)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "things_of_a_plugin", raising=False)
    importlib.invalidate_caches()


def things() -> Contract:
    registry: Registry[object] = Registry("test.things", "thing")
    registry.add("zip", object(), id=1)
    registry.add("none", object(), id=0)
    return Contract("thing", "test.things", registry, "kqueue.things", "check_thing")


def rows(usage: Usage) -> dict[str, Plugin]:
    return {plugin.name: plugin for plugin in plugins_of(things(), usage)}


NOBODY = Usage({}, {}, frozenset())


@pytest.mark.usefixtures("_installed")
def test_origins_and_states() -> None:
    inventory = rows(NOBODY)
    assert list(inventory) == ["zip", "none", "fast", "plain", "broken"]
    assert inventory["zip"] == Plugin("thing", "zip", 1, OURS, "in use", "")
    assert inventory["plain"] == Plugin("thing", "plain", None, "many-things 1.5", "ready", "")
    why = f"zip ({OURS}) serves id 1; to have this one do it: kqueue serve --set kqueue.things=fast"
    assert inventory["fast"] == Plugin("thing", "fast", 1, "many-things 1.5", "waits", why)
    why = "AttributeError: module 'things_of_a_plugin' has no attribute 'NOTHING'"
    assert inventory["broken"] == Plugin("thing", "broken", None, "many-things 1.5", "failed", why)


@pytest.mark.usefixtures("_installed")
def test_preferred_plugin_of_the_broker_serves_the_id_and_its_topics() -> None:
    inventory = rows(
        Usage({"thing": {"zip": {"b", "a"}, "fast": {"c"}}}, {"thing": {"fast": {2, 1}}}, frozenset({"fast"}))
    )
    assert (inventory["fast"].state, inventory["fast"].topics, inventory["fast"].brokers) == (
        "in use",
        ("a", "b", "c"),
        (1, 2),
    )
    assert (inventory["zip"].state, inventory["zip"].topics) == ("waits", ())
    assert inventory["zip"].why == "fast (many-things 1.5) serves id 1 at the broker"


@pytest.mark.usefixtures("_installed")
def test_plugins_of_the_broker_alone_are_listed() -> None:
    inventory = rows(
        Usage(
            {"thing": {"far": {"a"}, "broken": {"b"}}}, {"thing": {"mine:THING": {1}}, "other": {"x": {1}}}, frozenset()
        )
    )
    assert (inventory["far"].state, inventory["far"].origin, inventory["far"].topics) == ("not here", "", ("a",))
    assert (inventory["mine:THING"].state, inventory["mine:THING"].brokers) == ("by path", (1,))
    assert (inventory["broken"].state, inventory["broken"].topics) == ("failed", ("b",))
    assert "x" not in inventory


@pytest.mark.usefixtures("_installed")
def test_foreign_commands() -> None:
    plugins = {plugin.name: plugin for plugin in plugins_of(Contract("command", "test.commands"))}
    assert list(plugins) == ["greet", "odd", "topics"]
    assert plugins["greet"] == Plugin("command", "greet", None, "many-things 1.5", "ready", "")
    assert plugins["topics"].state == "waits"
    assert plugins["odd"].state == "failed"
    assert plugins["odd"].why.startswith(
        "the command 'odd' of many-things 1.5 is not a click command: <things_of_a_plugin.Thing"
    )


def test_all_kinds_are_there() -> None:
    listed = sections()
    assert [(section.kind, section.group) for section in listed] == [
        (contract.kind, contract.group) for contract in CONTRACTS
    ]
    codecs = {plugin.name: plugin for plugin in listed[0].plugins}
    assert codecs["gzip"] == Plugin("codec", "gzip", 1, OURS, "in use", "")


def test_names_of_our_own() -> None:
    assert built_in_names("codec") == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert {"local", "memory"} == built_in_names("storage")
    assert "topics" in built_in_names("command")
