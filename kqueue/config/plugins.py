"""The plugin contracts, and the registration of plugins that settings name or that a program passes
as objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kqueue.base.config import Config
from kqueue.base.errors import PluginError, SettingError
from kqueue.base.registry import BUILT_IN, PluginSource, Registry, import_object, name_of
from kqueue.base.settings import ANY, Scope, Setting, SettingType
from kqueue.groups.assignors import ASSIGNORS, AssignorFactory, assignor_names
from kqueue.log.policies import POLICIES, CleanupPolicy
from kqueue.metadata import METADATA_STORES, MetadataStore
from kqueue.metadata.store import ClusterStore
from kqueue.records.codecs import CODECS, Codec
from kqueue.records.partitioners import PARTITIONERS, PartitionerFactory
from kqueue.security.authorizers import AUTHORIZERS, AuthorizerFactory, authorizer_name
from kqueue.security.authorizers import SETTING as AUTHORIZER_SETTING
from kqueue.security.config import ALLOW_WITHOUT_ACLS, SUPER_USERS, parse_super_users
from kqueue.storage import STORAGES, Storage
from kqueue.tier.stores.address import TIER_STORES

if TYPE_CHECKING:
    from kqueue.security.acls import AclIndex
    from kqueue.security.authorizer import FailClosedAuthorizer

A = TypeVar("A")
T = TypeVar("T")
BROKER = "Broker(...)"
POLICIES_SETTING = "kqueue.cleanup.policies"
ASSIGNORS_SETTING = "group.consumer.assignors"


class Contract(NamedTuple):
    """One kind of plugin.

    `group`: the entry-point group. `setting`: the broker setting that names one or takes
    `module:object`; None: the scheme of a URL names it. `checker`: of `kqueue.testing`. Only the
    command line loads commands: they have no registry, setting or checker.
    """

    kind: str
    group: str
    registry: Registry[Any] | None = None
    setting: str | None = None
    checker: str | None = None


CONTRACTS: tuple[Contract, ...] = (
    Contract("codec", CODECS.group, CODECS, "kqueue.codecs", "check_codec"),
    Contract("partitioner", PARTITIONERS.group, PARTITIONERS, "kqueue.partitioners", "check_partitioner"),
    Contract("assignor", ASSIGNORS.group, ASSIGNORS, ASSIGNORS_SETTING, "check_assignor"),
    Contract("cleanup-policy", POLICIES.group, POLICIES, POLICIES_SETTING, "check_cleanup_policy"),
    Contract("storage", STORAGES.group, STORAGES, "kqueue.storage", "check_storage"),
    Contract("metadata-store", METADATA_STORES.group, METADATA_STORES, "kqueue.metadata", "check_metadata_store"),
    Contract("authorizer", AUTHORIZERS.group, AUTHORIZERS, AUTHORIZER_SETTING, "check_authorizer"),
    Contract("tier-store", TIER_STORES.group, TIER_STORES, None, "check_tier_store"),
    Contract("command", "kqueue.commands"),
)
"""Every contract that a plugin can fulfil."""

SETTINGS: tuple[Setting, ...] = (
    Setting(
        "kqueue.codecs",
        SettingType.LIST,
        [],
        ANY,
        Scope.BROKER,
        "Codecs that serve their id in the place of who has it, comma separated: names of plugins, "
        "or module:object, e.g. isal for gzip's.",
    ),
    Setting(
        "kqueue.partitioners",
        SettingType.LIST,
        [],
        ANY,
        Scope.BROKER,
        "Partitioners that are there besides those that are installed, comma separated, as name=module:Class.",
    ),
    Setting(
        POLICIES_SETTING,
        SettingType.LIST,
        [],
        ANY,
        Scope.BROKER,
        "Cleanup policies that are there besides those that are installed, comma separated, as "
        "module:object; the object has its name.",
    ),
)


@dataclass(frozen=True, slots=True)
class PluginObjects:
    """Plugins that a program passes to its broker. `storage`, `metadata`: called with the path of a
    data folder. `cluster`: the store of the cluster that the broker is a member of. `authorizer`:
    called with an `AuthorizerSetup`, in place of the one that the settings name.
    """

    codecs: Sequence[Codec] = ()
    partitioners: Mapping[str, PartitionerFactory] = field(default_factory=dict)
    cleanup_policies: Sequence[CleanupPolicy] = ()
    storage: Callable[[str], Storage] | None = None
    metadata: Callable[[str], MetadataStore] | None = None
    assignors: Mapping[str, AssignorFactory] = field(default_factory=dict)
    cluster: ClusterStore | None = None
    authorizer: AuthorizerFactory | None = None


def plugin_sources() -> list[PluginSource]:
    """Return the modules of all plugins that were loaded."""
    return [source for contract in CONTRACTS if contract.registry is not None for source in contract.registry.sources()]


@contextmanager
def register_plugins(config: Config, objects: PluginObjects | None = None) -> Iterator[None]:
    """Register the plugins that the settings name, and `objects`, for as long as the `with` lasts.

    Raises:
        SettingError: a setting names a plugin that can't be used; the message lists the others.
        PluginError: an object can't be used, or another broker of this process has registered a
            different one of its name.
    """
    objects = objects or PluginObjects()
    with ExitStack() as used:
        for text in config["kqueue.codecs"]:
            with _naming("kqueue.codecs", text):
                _use_codec(used, text)
        for codec in objects.codecs:
            name = name_of(codec) or type(codec).__name__
            used.enter_context(CODECS.added(name, codec, BROKER))
            used.enter_context(CODECS.preferred(name))
        for text in config["kqueue.partitioners"]:
            with _naming("kqueue.partitioners", text):
                _use_partitioner(used, text)
        for name, factory in objects.partitioners.items():
            used.enter_context(PARTITIONERS.added(name, factory, BROKER))
        for name, assignor in objects.assignors.items():
            used.enter_context(ASSIGNORS.added(name, assignor, BROKER))
        for text in config[ASSIGNORS_SETTING]:
            with _naming(ASSIGNORS_SETTING, text):
                _use_assignor(used, text)
        used.enter_context(register_policies(config, objects))
        yield


@contextmanager
def register_policies(config: Config, objects: PluginObjects | None = None) -> Iterator[None]:
    """As `register_plugins`, only for cleanup policies."""
    with ExitStack() as used:
        for text in config[POLICIES_SETTING]:
            with _naming(POLICIES_SETTING, text):
                _use_policy(used, text)
        for policy in objects.cleanup_policies if objects else ():
            used.enter_context(POLICIES.added(name_of(policy) or type(policy).__name__, policy, BROKER))
        yield


def storage_factory(config: Config, objects: PluginObjects | None = None) -> Callable[[str], Storage]:
    """Return the function that opens the storage of a data folder.

    Raises: SettingError: `kqueue.storage` names a storage that can't be used.
    """
    if objects is not None and objects.storage is not None:
        return _maker(STORAGES, objects.storage, "storage")
    return _factory_of(STORAGES, "kqueue.storage", config["kqueue.storage"])


def metadata_store_factory(config: Config, objects: PluginObjects | None = None) -> Callable[[str], MetadataStore]:
    """Return the function that opens the metadata store of a data folder.

    Raises: SettingError: `kqueue.metadata` names a store that can't be used.
    """
    if objects is not None and objects.metadata is not None:
        return _maker(METADATA_STORES, objects.metadata, "metadata")
    return _factory_of(METADATA_STORES, "kqueue.metadata", metadata_store_name(config))


def metadata_store_name(config: Config) -> str:
    """Return the name of the configured metadata store. By default memory for logs in memory, else
    sqlite.
    """
    named: str | None = config["kqueue.metadata"]
    return named or ("memory" if config["kqueue.storage"] == "memory" else "sqlite")


def open_authorizer(
    config: Config, objects: PluginObjects, acls: Callable[[], AclIndex]
) -> FailClosedAuthorizer | None:
    """Return the broker's authorizer; None: every client may do everything.

    Args: acls: returns the stored ACLs, which change with the store.
    Raises: SettingError: the authorizer that the setting names can't be used. PluginError: the one
        of `objects`.
    """
    text = config[AUTHORIZER_SETTING]
    if objects.authorizer is None and not text:
        return None
    from kqueue.security.authorizer import AuthorizerSetup, FailClosedAuthorizer  # on use: most brokers have none

    setup = AuthorizerSetup(acls(), parse_super_users(config[SUPER_USERS]), config[ALLOW_WITHOUT_ACLS])
    if objects.authorizer is not None:
        return FailClosedAuthorizer(_maker(AUTHORIZERS, objects.authorizer, "authorizer")(setup))
    with _naming(AUTHORIZER_SETTING, text):
        return FailClosedAuthorizer(AUTHORIZERS.find(authorizer_name(text))(setup))


def _use_codec(used: ExitStack, text: str) -> None:
    name = _add_path(used, CODECS, text) if ":" in text else text
    used.enter_context(CODECS.preferred(name))


def _use_partitioner(used: ExitStack, text: str) -> None:
    _add_named_path(used, PARTITIONERS, text)


def _use_assignor(used: ExitStack, text: str) -> None:
    if "=" in text or ":" in text:
        _add_named_path(used, ASSIGNORS, text)
    else:
        assignor_names([text])


def _add_named_path(used: ExitStack, registry: Registry[Any], text: str) -> None:
    name, equals, path = text.partition("=")
    if not equals or not name.strip() or ":" not in path:
        raise PluginError("expected name=module:Class")
    _add_path(used, registry, path.strip(), name.strip())


def _use_policy(used: ExitStack, text: str) -> None:
    if ":" in text:
        _add_path(used, POLICIES, text)
    else:
        POLICIES.get(text)


def _add_path(used: ExitStack, registry: Registry[Any], path: str, name: str | None = None) -> str:
    raw = import_object(path, registry.noun)
    name = name or name_of(raw) or path
    used.enter_context(registry.added(name, raw, f"settings ({path})", path=path))
    return name


def _factory_of(registry: Registry[Callable[[str], T]], setting: str, text: str) -> Callable[[str], T]:
    with _naming(setting, text):
        make = registry.find(text)
    if ":" not in text and registry.entry(text).origin == BUILT_IN:
        return make

    def named(folder: str) -> T:
        with _naming(setting, text):
            return make(folder)

    return named


def object_of(registry: Registry[Callable[[str], T]], given: T, keyword: str) -> T:
    """Return a storage or store of `Broker(keyword=...)`, wrapped so that its errors name it."""
    origin = f"Broker({keyword}=...)"
    guarded = registry.guarded(type(given).__qualname__, lambda folder: given, origin)("")
    registry.met(given, f"{registry.noun} {type(given).__qualname__!r} of {origin}")
    return guarded


def _maker(registry: Registry[Callable[[A], T]], given: Callable[[A], T], keyword: str) -> Callable[[A], T]:
    name = getattr(given, "__qualname__", type(given).__qualname__)
    return registry.guarded(name, given, f"Broker({keyword}=...)")


@contextmanager
def _naming(setting: str, text: str) -> Iterator[None]:
    try:
        yield
    except PluginError as error:
        raise SettingError(f"{setting}={text}: {error}") from error
