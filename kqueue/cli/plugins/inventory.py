"""Inventory of plugins: all built-ins and plugins of this installation, their state and their
users.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Any, NamedTuple

import click

from kqueue import __version__
from kqueue.base.registry import BUILT_IN, Registry, RegistryEntry
from kqueue.cli.app import COMMANDS
from kqueue.cli.lazy import distribution_of, load_plugin
from kqueue.cli.plugins.usage import NOBODY, Usage
from kqueue.config.plugins import CONTRACTS, Contract

READY = "ready"
IN_USE = "in use"
WAITS = "waits"
FAILED = "failed"
NOT_HERE = "not here"
BY_PATH = "by path"


class Plugin(NamedTuple):
    """One row of the inventory.

    Attributes:
        origin: distribution and version.
        state: `READY`; `IN_USE` or `WAITS` for an entry with an id; `FAILED`; `NOT_HERE`: a broker
            names it, but this installation lacks it; `BY_PATH`: the broker names it as
            ``module:object``.
        why: a sentence about the state; "": none needed.
        topics, brokers: its users, sorted; empty: none, or no broker was asked.
    """

    kind: str
    name: str
    id: int | None
    origin: str
    state: str
    why: str
    topics: tuple[str, ...] = ()
    brokers: tuple[int, ...] = ()


class Section(NamedTuple):
    """All plugins of one kind."""

    kind: str
    group: str
    plugins: tuple[Plugin, ...]


def sections(usage: Usage = NOBODY) -> list[Section]:
    """Return all plugins by kind, commands last. It loads every plugin; failed ones are rows
    too.
    """
    return [Section(contract.kind, contract.group, tuple(plugins_of(contract, usage))) for contract in CONTRACTS]


def built_in_names(kind: str) -> set[str]:
    """Return the names of kqueue's own implementations of this kind."""
    (contract,) = (contract for contract in CONTRACTS if contract.kind == kind)
    if contract.registry is None:
        return set(COMMANDS)
    return {entry.name for entry in contract.registry if entry.origin == BUILT_IN}


def plugins_of(contract: Contract, usage: Usage = NOBODY) -> Iterator[Plugin]:
    """Yield the rows of one kind: kqueue's own first, failed and missing ones last."""
    if contract.registry is None:
        return _commands(contract.group)
    return _registered(contract, contract.registry, usage)


def _registered(contract: Contract, registry: Registry[Any], usage: Usage) -> Iterator[Plugin]:
    entries = list(registry)
    holders = _holders(entries, usage.preferred)
    topics = _by_holder(entries, holders, usage.topics.get(contract.kind, {}))
    brokers = usage.brokers.get(contract.kind, {})

    def row(name: str, id: int | None, origin: str, state: str, why: str) -> Plugin:
        users = tuple(sorted(topics.get(name, ()))), tuple(sorted(brokers.get(name, ())))
        return Plugin(contract.kind, name, id, origin, state, why, *users)

    for entry in entries:
        yield row(entry.name, entry.id, _origin(entry), *_state(contract, entry, holders))
    for name, why in sorted(registry.failed.items()):
        yield row(name, None, *_failure(why))
    known = {entry.name for entry in entries} | set(registry.failed)
    for name in sorted({*topics, *brokers} - known):
        if ":" in name:
            yield row(name, None, "", BY_PATH, "")
        else:
            yield row(
                name, None, "", NOT_HERE, f"the broker or its topics name it, and no {registry.noun} is called so here"
            )


def _holders(entries: Iterable[RegistryEntry[Any]], preferred: Iterable[str]) -> dict[int, RegistryEntry[Any]]:
    """Return the entry that serves each id: the first with it, unless settings prefer another."""
    holders: dict[int, RegistryEntry[Any]] = {}
    for entry in entries:
        if entry.id is not None and (entry.name in preferred or entry.id not in holders):
            holders[entry.id] = entry
    return holders


def _by_holder(
    entries: Iterable[RegistryEntry[Any]], holders: dict[int, RegistryEntry[Any]], users: dict[str, set[str]]
) -> dict[str, set[str]]:
    """Return the users by the name of the serving entry: a plugin may serve a topic's ``gzip``."""
    ids = {entry.name: entry.id for entry in entries}
    users_by_holder: dict[str, set[str]] = {}
    for name, topics in users.items():
        id = ids.get(name)
        users_by_holder.setdefault(name if id is None else holders[id].name, set()).update(topics)
    return users_by_holder


def _state(contract: Contract, entry: RegistryEntry[Any], holders: dict[int, RegistryEntry[Any]]) -> tuple[str, str]:
    if entry.id is None:
        return READY, ""
    holder = holders[entry.id]
    if holder is entry:
        return IN_USE, ""
    if entry.origin == BUILT_IN:
        return WAITS, f"{holder.name} ({_origin(holder)}) serves id {entry.id} at the broker"
    how = f"kqueue serve --set {contract.setting}={entry.name}"
    return WAITS, f"{holder.name} ({_origin(holder)}) serves id {entry.id}; to have this one do it: {how}"


def _origin(entry: RegistryEntry[Any]) -> str:
    return f"{BUILT_IN} {__version__}" if entry.origin == BUILT_IN else entry.origin


def _failure(why: str) -> tuple[str, str, str]:
    """Return origin, state and reason of a registry's message about a failed plugin."""
    origin, _, reason = why.partition(" failed to load: ")
    return origin, FAILED, reason


def _commands(group: str) -> Iterator[Plugin]:
    """Yield the commands of other distributions; ``kqueue --help`` lists kqueue's own."""
    for point in sorted(metadata.entry_points(group=group), key=lambda point: point.name):
        state, why = READY, ""
        if point.name in COMMANDS:
            state, why = WAITS, "kqueue has a command of its own of this name, which comes first"
        else:
            try:
                load_plugin(point)
            except click.ClickException as error:
                state, why = FAILED, error.message
        yield Plugin("command", point.name, None, distribution_of(point), state, why)
