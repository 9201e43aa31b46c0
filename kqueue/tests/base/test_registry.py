from __future__ import annotations

from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from kqueue.base import registry
from kqueue.base.errors import PluginError
from kqueue.base.registry import Registry, RegistryEntry


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
    codecs.add("gzip", "G", id=1, origin="first 1.0")
    with pytest.raises(PluginError, match="held by 'gzip' of first 1.0"):
        codecs.add(name, "other", id=number, origin="second 1.0")


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
    assert {entry.name: entry.origin for entry in codecs} == {"gzip": "kqueue", "fine": "some-plugin 2.1"}
    with pytest.raises(PluginError, match="some-plugin 2.1 failed to load: ImportError: no module"):
        codecs.get("broken")
    assert "held by 'gzip' of kqueue" in codecs.failed["gzip"]
    assert codecs.get("gzip") == "G"


# --- plugins: loaded one by one


@pytest.fixture(autouse=True)
def points(monkeypatch: pytest.MonkeyPatch) -> list[Point]:
    """What is installed for the group of `codecs()`: fill it before the first look-up."""
    installed: list[Point] = []
    monkeypatch.setattr(metadata, "entry_points", lambda group: installed if group == "kqueue.codecs" else [])
    return installed


class Thing:
    """A codec as the registry sees it: a name and an id."""

    def __init__(self, name: str, id: int | None = None) -> None:
        self.name = name
        self.id = id


GZIP = Thing("gzip", 1)


def codecs(**options: Any) -> Registry[Thing]:
    registry: Registry[Thing] = Registry("kqueue.codecs", "codec", **options)
    registry.add("gzip", GZIP, id=1)
    return registry


class Counting(Point):
    loads = 0

    def load(self) -> object:
        self.loads += 1
        return super().load()


def test_a_name_loads_its_own_plugin_and_no_other(points: list[Point]) -> None:
    wanted, other = Counting("wanted", Thing("wanted")), Counting("other", Thing("other"))
    points += [wanted, other]
    registry = codecs()
    with pytest.raises(PluginError, match=r"no codec is called 'os:system' \(there are: gzip, other, wanted\)"):
        registry.get("os:system")
    assert registry.get("wanted").name == "wanted"
    assert (wanted.loads, other.loads) == (1, 0)
    assert registry.names() == ["gzip", "other", "wanted"]
    assert (wanted.loads, other.loads) == (1, 1)


def test_a_plugin_that_ends_the_program_at_import_is_left_out(points: list[Point]) -> None:
    class Exiting(Point):
        def load(self) -> object:
            raise SystemExit(2)

    points.append(Exiting("rude", None))
    registry = codecs()
    assert registry.names() == ["gzip"]
    assert registry.failed == {"rude": "some-plugin 2.1 failed to load: SystemExit: 2"}


def test_an_installed_plugin_with_a_built_ins_id_waits_to_be_preferred(points: list[Point]) -> None:
    isal = Thing("isal", 1)
    points.append(Point("isal", isal))
    registry = codecs()
    assert registry.names() == ["gzip", "isal"]
    assert (registry.by_id(1), registry.get("gzip"), registry.get("isal")) == (GZIP, GZIP, isal)
    with registry.preferred("isal"):
        assert (registry.by_id(1), registry.get("gzip"), registry.get("isal")) == (isal, isal, isal)
        assert [entry.name for entry in registry] == ["gzip", "isal"]
    assert (registry.by_id(1), registry.get("gzip")) == (GZIP, GZIP)


def test_two_plugins_of_one_name_collide_and_the_first_stays(points: list[Point]) -> None:
    first = Thing("mine", 5)
    points += [Point("mine", first), Point("mine", Thing("mine", 6))]
    registry = codecs()
    assert registry.by_id(5) is first
    assert registry.by_id(6) is None
    assert "held by 'mine' of some-plugin 2.1" in registry.failed["mine"]


# --- for a while


def test_added_entry_lasts_as_long_as_the_with_block() -> None:
    registry, mine = codecs(), Thing("mine", 5)
    with registry.added("mine", mine, "Broker(...)"):
        assert (registry.get("mine"), registry.by_id(5)) == (mine, mine)
        assert registry.entry("mine").origin == "Broker(...)"
        with registry.added("mine", mine, "Broker(...)"):
            pass
        assert registry.get("mine") is mine, "the same object was there twice, and one is left"
    assert registry.by_id(5) is None
    with pytest.raises(PluginError, match="no codec is called 'mine'"):
        registry.get("mine")


def test_another_object_of_a_name_is_refused_with_its_holder(points: list[Point]) -> None:
    points.append(Point("installed", Thing("installed")))
    registry = codecs()
    with registry.added("mine", Thing("mine"), "Broker(...)"):
        with (
            pytest.raises(PluginError, match="codec 'mine' .* of settings: .* held by 'mine' of Broker"),
            registry.added("mine", Thing("mine"), "settings"),
        ):
            pass
        assert registry.get("mine").name == "mine"
    for name, holder in (("gzip", "kqueue"), ("installed", "some-plugin 2.1")):
        with (
            pytest.raises(PluginError, match=f"held by '{name}' of {holder}"),
            registry.added(name, Thing(name), "settings"),
        ):
            pass


def test_brokers_may_leave_in_any_order() -> None:
    registry, mine = codecs(), Thing("mine", 1)
    first, second = ExitStack(), ExitStack()
    for broker in (first, second):
        broker.enter_context(registry.added("mine", mine, "Broker(...)"))
        broker.enter_context(registry.preferred("mine"))
    first.close()
    assert registry.by_id(1) is mine
    second.close()
    assert (registry.by_id(1), registry.names()) == (GZIP, ["gzip"])


def test_two_can_not_serve_one_id() -> None:
    registry = codecs()
    with registry.added("one", Thing("one", 1), "Broker(...)"), registry.added("two", Thing("two", 1), "settings"):
        with (
            registry.preferred("one"),
            pytest.raises(
                PluginError, match=r"'two' of settings can't serve id 1: 'one' of Broker\(...\) is preferred"
            ),
            registry.preferred("two"),
        ):
            pass
        with registry.preferred("two"):
            assert registry.get("gzip").name == "two"
    with (
        registry.added("none", Thing("none"), "settings"),
        pytest.raises(PluginError, match="has no id"),
        registry.preferred("none"),
    ):
        pass


# --- guards


def test_a_guard_sees_what_is_not_built_in_and_may_refuse_it(points: list[Point]) -> None:
    def guard(value: Thing, entry: RegistryEntry[Thing]) -> Thing:
        if value.name == "bad":
            raise PluginError(f"{entry.name} of {entry.origin} is bad")
        return Thing(f"guarded {value.name}", value.id)

    points += [Point("fine", Thing("fine")), Point("bad", Thing("bad"))]
    registry = codecs(guard=guard)
    assert registry.get("gzip") is GZIP
    assert registry.get("fine").name == "guarded fine"
    with pytest.raises(PluginError, match=r"some-plugin 2.1 failed to load: .*bad of some-plugin 2.1 is bad"):
        registry.get("bad")
    mine = Thing("mine")
    with registry.added("mine", mine, "Broker(...)"), registry.added("mine", mine, "Broker(...)"):
        assert registry.get("mine").name == "guarded mine"
        assert [guest.entry.value for guest in registry.temporary_entries()] == [mine]


# --- paths


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with a THING in it."""
    name = f"a_module_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text("class Thing:\n    id = 5\n    name = 'mine'\nTHING = Thing()\n")
    (tmp_path / f"broken_{name}.py").write_text("raise RuntimeError('not today')\n")
    monkeypatch.syspath_prepend(tmp_path)
    return name


def test_a_path_leads_to_an_object(module: str) -> None:
    registry = codecs()
    assert registry.find(f"{module}:THING").id == 5
    assert registry.find(f"{module}:Thing.name") == "mine"
    assert registry.find("gzip") is GZIP
    assert registry.names() == ["gzip"], "found, but not added"


def test_a_path_that_leads_nowhere_says_why(module: str) -> None:
    registry = codecs()
    for path, words in (
        ("no_such_module_here:X", "ModuleNotFoundError: No module named 'no_such_module_here'; .* PYTHONPATH"),
        (f"broken_{module}:X", "RuntimeError: not today"),
        (f"{module}:THNG", "has no 'THNG'; did you mean 'THING'"),
        (":X", "expected a name, or a path"),
        ("os:", "expected a name, or a path"),
    ):
        with pytest.raises(PluginError, match=f"codec '{path}'.*{words}"):
            registry.find(path)


# --- another process


def test_entry_lost_in_transfer_raises_by_name_and_by_id() -> None:
    registry = codecs()
    registry.lost("isal", 1, "codec 'isal' could not come along")
    with pytest.raises(PluginError, match="could not come along"):
        registry.by_id(1)
    with pytest.raises(PluginError, match="could not come along"):
        registry.get("isal")
    assert registry.get("gzip") is GZIP


def test_a_plugin_that_was_installed_meanwhile_says_to_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    points: list[Point] = []
    looks = []
    monkeypatch.setattr(metadata, "entry_points", lambda group: looks.append(group) or points)
    now = [100.0]
    monkeypatch.setattr(registry, "monotonic_s", lambda: now[0])
    partitioners: Registry[str] = Registry("kqueue.partitioners", "partitioner")
    for _ in range(10):
        with pytest.raises(PluginError, match=r"no partitioner is called 'by-customer' \(there are: "):
            partitioners.get("by-customer")
    assert len(looks) == 2  # once to load them, once to look again: strangers can't have it look all the time
    points.append(Point("by-customer", "C"))
    now[0] += registry.RESCAN_INTERVAL_S
    with pytest.raises(
        PluginError,
        match=r"^partitioner 'by-customer' of some-plugin 2.1 was installed while this process ran: restart the broker",
    ):
        partitioners.get("by-customer")
