"""What a plugin can be, and how a broker takes in those that its settings name and those that it was given as objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kqueue.base.errors import PluginError, SettingError
from kqueue.base.registry import BUILT_IN, Registry, import_object, name_of
from kqueue.base.settings import ANY, Config, Kind, Scope, Setting
from kqueue.log.policies import POLICIES, CleanupPolicy
from kqueue.records.codecs import CODECS, Codec
from kqueue.records.partitioners import PARTITIONERS, PartitionerFactory
from kqueue.replication import METADATA_STORES, MetadataStore
from kqueue.storage import STORAGES, Storage

BROKER = "Broker(...)"


class Contract(NamedTuple):
    """One kind of plugin. `group`: the entry-point group; `setting`: the broker setting that names one, or takes `module:object`;
    `checker`: of `kqueue.testing`. Commands are loaded by the command line alone: they have neither registry, setting nor checker.
    """

    kind: str
    group: str
    registry: Registry[Any] | None = None
    setting: str | None = None
    checker: str | None = None


CONTRACTS: tuple[Contract, ...] = (
    Contract("codec", CODECS.group, CODECS, "kqueue.codecs", "check_codec"),
    Contract("partitioner", PARTITIONERS.group, PARTITIONERS, "kqueue.partitioners", "check_partitioner"),
    Contract("cleanup-policy", POLICIES.group, POLICIES, "kqueue.cleanup.policies", "check_cleanup_policy"),
    Contract("storage", STORAGES.group, STORAGES, "kqueue.storage", "check_storage"),
    Contract("metadata-store", METADATA_STORES.group, METADATA_STORES, "kqueue.metadata", "check_metadata_store"),
    Contract("command", "kqueue.commands"),
)
"""Every contract that a plugin can fill."""

SETTINGS: tuple[Setting, ...] = (
    Setting(
        "kqueue.codecs",
        Kind.LIST,
        [],
        ANY,
        Scope.BROKER,
        "Codecs that serve their id in the place of who has it, comma separated: names of plugins, or module:object, e.g. isal for gzip's.",
    ),
    Setting(
        "kqueue.partitioners",
        Kind.LIST,
        [],
        ANY,
        Scope.BROKER,
        "Partitioners that are there besides those that are installed, comma separated, as name=module:Class.",
    ),
    Setting(
        "kqueue.cleanup.policies",
        Kind.LIST,
        [],
        ANY,
        Scope.BROKER,
        "Cleanup policies that are there besides those that are installed, comma separated, as module:object; the object has its name.",
    ),
)


@dataclass(frozen=True, slots=True)
class Objects:
    """Plugins that a program hands to its broker. `storage`, `metadata`: the thing itself, or what makes it of a folder's path."""

    codecs: Sequence[Codec] = ()
    partitioners: Mapping[str, PartitionerFactory] = field(default_factory=dict)
    cleanup_policies: Sequence[CleanupPolicy] = ()
    storage: Any = None
    metadata: Any = None


@contextmanager
def use(config: Config, objects: Objects | None = None) -> Iterator[None]:
    """Have the plugins that the settings name, and those objects, in their registries for as long as the `with` lasts.

    Raises SettingError: a setting names what can't be used (says why, and what is there). PluginError: an object can't be, or
    another broker of this process has another thing of its name.
    """
    with ExitStack() as used:
        for text in config["kqueue.codecs"]:
            with _naming("kqueue.codecs", text):
                _use_codec(used, text)
        for text in config["kqueue.partitioners"]:
            with _naming("kqueue.partitioners", text):
                _use_partitioner(used, text)
        for text in config["kqueue.cleanup.policies"]:
            with _naming("kqueue.cleanup.policies", text):
                _use_policy(used, text)
        if objects is not None:
            _use_objects(used, objects)
        yield


def storage_maker(config: Config, objects: Objects | None = None) -> Callable[[str], Storage]:
    """What makes the storage of a data folder. Raises SettingError: `kqueue.storage` names what can't be used."""
    if objects is not None and objects.storage is not None:
        return _maker(STORAGES, objects.storage, "storage")
    name: str = config["kqueue.storage"]
    with _naming("kqueue.storage", name):
        return STORAGES.find(name)


def store_opener(config: Config, objects: Objects | None = None) -> Callable[[str], MetadataStore]:
    """What opens the metadata store of a data folder. Raises SettingError: `kqueue.metadata` names what can't be used."""
    if objects is not None and objects.metadata is not None:
        return _maker(METADATA_STORES, objects.metadata, "metadata")
    name = metadata_name(config)
    with _naming("kqueue.metadata", name):
        return METADATA_STORES.find(name)


def metadata_name(config: Config) -> str:
    """The metadata store that the settings ask for: where none is named, memory beside logs in memory, else sqlite."""
    named: str | None = config["kqueue.metadata"]
    return named or ("memory" if config["kqueue.storage"] == "memory" else "sqlite")


def _use_codec(used: ExitStack, text: str) -> None:
    name = _add_path(used, CODECS, text) if ":" in text else text
    used.enter_context(CODECS.preferred(name))


def _use_partitioner(used: ExitStack, text: str) -> None:
    name, equals, path = text.partition("=")
    if not equals or not name.strip() or ":" not in path:
        raise PluginError("expected name=module:Class")
    _add_path(used, PARTITIONERS, path.strip(), name.strip())


def _use_policy(used: ExitStack, text: str) -> None:
    if ":" in text:
        _add_path(used, POLICIES, text)
    else:
        POLICIES.get(text)


def _use_objects(used: ExitStack, objects: Objects) -> None:
    for codec in objects.codecs:
        name = name_of(codec) or type(codec).__name__
        used.enter_context(CODECS.added(name, codec, BROKER))
        used.enter_context(CODECS.preferred(name))
    for name, factory in objects.partitioners.items():
        used.enter_context(PARTITIONERS.added(name, factory, BROKER))
    for policy in objects.cleanup_policies:
        used.enter_context(POLICIES.added(name_of(policy) or type(policy).__name__, policy, BROKER))


def _add_path(used: ExitStack, registry: Registry[Any], path: str, name: str | None = None) -> str:
    raw = import_object(path, registry.noun)
    name = name or name_of(raw) or path
    used.enter_context(registry.added(name, raw, f"settings ({path})", path=path))
    return name


def _maker(registry: Registry[Callable[[str], Any]], given: Any, keyword: str) -> Callable[[str], Any]:
    """`given` as a callable that takes a folder's path; guarded, unless it is kqueue's own."""
    make = given if callable(given) else lambda folder: given
    if type(given).__module__.partition(".")[0] == BUILT_IN:
        return make
    name = getattr(given, "__qualname__", type(given).__qualname__)
    return registry.guarded(name, make, f"Broker({keyword}=...)")


@contextmanager
def _naming(setting: str, text: str) -> Iterator[None]:
    try:
        yield
    except PluginError as error:
        raise SettingError(f"{setting}={text}: {error}") from error
