"""PluginArguments that a program hands to its broker: `Broker(storage=..., metadata=...,
codecs=..., partitioners=..., cleanup_policies=..., assignors=..., cluster=..., authorizer=...)`.

A storage or metadata store may be an object: the program owns it, through restarts and after the
stop, and it is the one data folder, whatever `path` says. Or it is a callable that takes a data
folder's path and is called at every start; that needs a `path`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kqueue.base.errors import SettingError
from kqueue.config.plugins import PluginObjects, object_of
from kqueue.config.properties import keyword_name
from kqueue.groups.assignors import AssignorFactory
from kqueue.log.policies import CleanupPolicy
from kqueue.metadata import METADATA_STORES, MetadataStore
from kqueue.metadata.memory import MemoryStore
from kqueue.metadata.store import ClusterStore
from kqueue.records.codecs import Codec
from kqueue.records.partitioners import PartitionerFactory
from kqueue.replication.config import GIVEN_STORE
from kqueue.security.authorizers import AuthorizerFactory
from kqueue.storage import STORAGES, LocalStorage, MemoryStorage, Storage

GivenStorage = Storage | Callable[[str], Storage] | None
GivenStore = MetadataStore | Callable[[str], MetadataStore] | None
_FOLDERS = frozenset({"log.dirs", "log.dir"})
_NAMES: dict[type, str] = {MemoryStorage: "memory", LocalStorage: "local", MemoryStore: "memory"}


class PluginArguments:
    """The plugin arguments of one broker, the same for all its starts."""

    def __init__(
        self,
        storage: GivenStorage,
        metadata: GivenStore,
        codecs: Sequence[Codec],
        partitioners: Mapping[str, PartitionerFactory] | None,
        cleanup_policies: Sequence[CleanupPolicy],
        assignors: Mapping[str, AssignorFactory] | None,
        cluster: ClusterStore | None,
        authorizer: AuthorizerFactory | None = None,
    ) -> None:
        """Raises PluginError: an argument does not fulfil its contract."""
        self.storages: list[Storage] | None = None
        self.store: MetadataStore | None = None
        make: Callable[[str], Storage] | None = None
        open_store: Callable[[str], MetadataStore] | None = None
        if callable(storage):
            make = storage
        elif storage is not None:
            self.storages = [storage if type(storage) in _NAMES else object_of(STORAGES, storage, "storage")]
        if callable(metadata):
            open_store = metadata
        elif metadata is not None:
            self.store = metadata if type(metadata) in _NAMES else object_of(METADATA_STORES, metadata, "metadata")
        self.objects = PluginObjects(
            tuple(codecs), dict(partitioners or {}), tuple(cleanup_policies), make, open_store, dict(assignors or {}),
            cluster, authorizer,
        )  # fmt: skip
        self._given = {"kqueue_storage": storage, "kqueue_metadata": metadata, "kqueue_cluster_store": cluster}

    def keywords(
        self, keywords: Mapping[str, object], settings: Mapping[str, object], path: str | os.PathLike[str] | None
    ) -> dict[str, object]:
        """Return `keywords` with the names of a storage and metadata store given as objects.

        Raises: SettingError: one is also given by name, or a callable has no data folder.
        """
        named = dict(keywords)
        has_folder = path is not None or not _FOLDERS.isdisjoint({*settings, *map(keyword_name, keywords)})
        for keyword, given in self._given.items():
            if given is None:
                continue
            if keyword in keywords or keyword_name(keyword) in settings:
                raise SettingError(f"{keyword_name(keyword)} is given twice: by name and as an object")
            if callable(given) and not has_folder:
                raise SettingError(
                    f"{_name_of(given)} is called with the path of a data folder, and none was given: "
                    f"pass a path, or the object itself"
                )
            named[keyword] = GIVEN_STORE if given is self.objects.cluster else _name_of(given)
        if self.storages is not None and not has_folder and "kqueue.metadata" not in settings:
            named.setdefault("kqueue_metadata", "memory")
        return named


def _name_of(given: Any) -> str:
    kind = type(given)
    if kind in _NAMES:
        return _NAMES[kind]
    named = given if hasattr(given, "__qualname__") else kind
    return f"{named.__module__}:{named.__qualname__}"
