from __future__ import annotations

from importlib import metadata

import pytest

from kqueue.base.errors import PluginError
from kqueue.base.registry import Registry


def test_names_and_ids_find_their_thing() -> None:
    codecs: Registry[str] = Registry("kqueue.none", "codec")
    codecs.add("gzip", "G", id=1)
    assert codecs.get("gzip") == "G"
    assert codecs.by_id(1) == "G"
    assert codecs.by_id(9) is None
    assert codecs.names() == ["gzip"]


@pytest.mark.parametrize(("name", "number"), [("gzip", 7), ("other", 1)])
def test_a_name_or_id_that_is_taken_says_who_holds_it(name: str, number: int) -> None:
    codecs: Registry[str] = Registry("kqueue.none", "codec")
    codecs.add("gzip", "G", id=1, distribution="first 1.0")
    with pytest.raises(PluginError, match="held by 'gzip' of first 1.0"):
        codecs.add(name, "other", id=number, distribution="second 1.0")


def test_an_unknown_name_gets_the_nearest_and_the_list() -> None:
    codecs: Registry[str] = Registry("kqueue.none", "codec")
    codecs.add("snappy", "S")
    with pytest.raises(PluginError, match="did you mean 'snappy'.*there are: snappy"):
        codecs.get("snapy")


class Point:
    """An entry point of a distribution called `dist`, as importlib.metadata gives it."""

    def __init__(self, name: str, value: object) -> None:
        self.name = name
        self._value = value
        self.dist = type("Dist", (), {"name": "some-plugin", "version": "2.1"})()

    def load(self) -> object:
        if isinstance(self._value, Exception):
            raise self._value
        return self._value


def test_plugins_join_and_a_broken_one_is_named_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [Point("fine", "F"), Point("broken", ImportError("no module")), Point("gzip", "clash")]
    monkeypatch.setattr(metadata, "entry_points", lambda group: points if group == "kqueue.codecs" else [])
    codecs: Registry[str] = Registry("kqueue.codecs", "codec")
    codecs.add("gzip", "G")
    assert codecs.get("gzip") == "G"
    assert codecs.get("fine") == "F"
    assert {entry.name: entry.distribution for entry in codecs} == {"gzip": "kqueue", "fine": "some-plugin 2.1"}
    with pytest.raises(PluginError, match="some-plugin 2.1 failed to load: ImportError: no module"):
        codecs.get("broken")
    assert "held by 'gzip' of kqueue" in codecs.failed["gzip"]
    assert codecs.get("gzip") == "G"
