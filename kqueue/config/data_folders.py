"""Opens the storages and the metadata store of the data folders that the settings name."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kqueue.base import events
from kqueue.base.config import Config
from kqueue.base.errors import SettingError, StorageFailed
from kqueue.base.jobs import IoJob, Jobs
from kqueue.config import plugins
from kqueue.log.manager import OfflineFolder
from kqueue.metadata import MetadataStore
from kqueue.metadata.store import ClusterStore
from kqueue.replication.config import (
    CLUSTER_STORE,
    GIVEN_STORE,
    POSTGRES_PASSWORD,
    POSTGRES_STORE,
    SQLITE_STORE,
    ZOOKEEPER_PASSWORD,
    ZOOKEEPER_STORE,
    ZOOKEEPER_STORES,
    ZOOKEEPER_TLS,
    ZOOKEEPER_USER,
)
from kqueue.storage import LocalStorage, Storage
from kqueue.storage.descriptor_cache import LIMIT_MIN, DescriptorCache, default_limit

if TYPE_CHECKING:
    from kqueue.metadata.zookeeper_tls import Wrap

logger = logging.getLogger("kqueue.server")


def data_folders(config: Config) -> list[str]:
    """Return the paths of the data folders: `log.dirs`, else `log.dir`."""
    folders: list[str] = config["log.dirs"] or config["log.dir"]
    return folders


def open_storages(
    config: Config, objects: plugins.PluginObjects, jobs: Jobs
) -> tuple[list[Storage], list[OfflineFolder]]:
    """Open the storage of each data folder; memory has one without a folder.

    Args:
        jobs: writes back the unsynced files of local folders.
    Returns: the storages, and the folders that can't be opened, each with its error.
    Raises: SettingError: no such storage, or a folder is named twice.
    """
    make = plugins.storage_factory(config, objects)
    if config["kqueue.storage"] == "memory":
        return [make("")], []
    storages: list[Storage] = []
    offline = []
    folders = data_folders(config)
    for folder in folders:
        try:
            if make is LocalStorage:
                storages.append(LocalStorage(folder, _descriptor_cache(folder, len(folders), jobs)))
            else:
                storages.append(make(folder))
        except StorageFailed as error:
            offline.append(OfflineFolder(str(Path(folder).absolute()), error))
    check_distinct(storages)
    warn_of_open_folders(storages)
    return storages, offline


def open_metadata_store(
    config: Config, objects: plugins.PluginObjects, offline: Sequence[OfflineFolder]
) -> MetadataStore:
    """Open the metadata store that the settings name.

    Raises: SettingError: no such store. StorageFailed: it can't be opened, or its folder is
    offline.
    """
    open_store: Callable[[str], MetadataStore] = plugins.metadata_store_factory(config, objects)
    folders = data_folders(config)
    is_sqlite = objects.metadata is None and plugins.metadata_store_name(config) == "sqlite"
    return open_store(metadata_folder(folders, offline) if is_sqlite else folders[0])


def open_cluster_store(config: Config, objects: plugins.PluginObjects) -> ClusterStore | None:
    """Open the store of the cluster that the settings name, or return the given one; None: the
    broker is in no cluster.

    Raises: SettingError: no address. StorageFailed: it can't be reached; the message says what to
    check.
    """
    text: str | None = config[CLUSTER_STORE]
    if (text == GIVEN_STORE) is not (objects.cluster is not None):
        raise SettingError(
            f"{CLUSTER_STORE}={GIVEN_STORE} goes with a store that the program passes, and only with one"
        )
    if text is None or text == GIVEN_STORE:
        return objects.cluster
    # PostgreSQL's address is not shown: errors name the server, and it may have a password.
    setting = CLUSTER_STORE if text.startswith(POSTGRES_STORE) else f"{CLUSTER_STORE}={text}"
    try:
        if text.startswith(SQLITE_STORE):
            from kqueue.metadata.sqlite import SqliteStore  # on use: other brokers do not need it

            return SqliteStore(text.removeprefix(SQLITE_STORE))
        if text.startswith(POSTGRES_STORE):
            from kqueue.metadata.postgres import PostgresStore

            return PostgresStore(text, password=config[POSTGRES_PASSWORD])
        from kqueue.metadata.zookeeper import ZookeeperStore

        return ZookeeperStore(
            text.removeprefix(ZOOKEEPER_STORE), credentials=_zookeeper_credentials(config), tls=zookeeper_tls(config)
        )
    except ValueError as error:
        raise SettingError(f"{setting}: {error}") from None
    except StorageFailed as error:
        is_file = text.startswith(SQLITE_STORE)  # errors of servers say what to check
        check = "; check the path, and that its folder exists and may be written" if is_file else ""
        raise StorageFailed(f"{setting} can't be used: {error}{check}") from error


def _zookeeper_credentials(config: Config) -> tuple[str, str] | None:
    user, password = config[ZOOKEEPER_USER], config[ZOOKEEPER_PASSWORD]
    if (user is None) is not (password is None):
        raise SettingError(f"{ZOOKEEPER_USER} and {ZOOKEEPER_PASSWORD} go together: expected both, or neither")
    return None if user is None else (user, password)


def zookeeper_tls(config: Config) -> Wrap | None:
    """Return what encrypts connections to ZooKeeper; None: nothing does. Raises SettingError."""
    if not config[ZOOKEEPER_TLS]:
        return None
    from kqueue.config.tls_client import client_context  # on use: without TLS nobody needs it
    from kqueue.config.tls_properties import tls_client_settings

    checks = "ssl.endpoint.identification.algorithm"
    given: dict[str, str | None] = {checks: config["zookeeper.ssl.endpoint.identification.algorithm"]}
    for store in ZOOKEEPER_STORES:
        path = config[f"zookeeper.ssl.{store}.location"]
        by_name = "PEM" if str(path).endswith(".pem") else "PKCS12"
        given[f"ssl.{store}.location"] = path
        given[f"ssl.{store}.type"] = config[f"zookeeper.ssl.{store}.type"] or by_name
        given[f"ssl.{store}.password"] = config[f"zookeeper.ssl.{store}.password"]
    try:
        context = client_context(tls_client_settings(given))
    except SettingError as error:
        raise SettingError(f"TLS to ZooKeeper, zookeeper.ssl.*: {error}") from None
    return lambda connected, host: context.wrap_socket(connected, server_hostname=host)


def check_distinct(storages: Sequence[Storage]) -> None:
    """Raise SettingError if two local folders are the same: by another spelling, a symbolic link or
    a bind mount.
    """
    by_inode: dict[tuple[int, int], str] = {}
    for storage in storages:
        if isinstance(storage, LocalStorage):
            status = Path(storage.location).stat()
            other = by_inode.setdefault((status.st_dev, status.st_ino), storage.location)
            if other is not storage.location:
                raise SettingError(f"log.dirs: {other} and {storage.location} are the same folder; name it once")


def warn_of_open_folders(storages: Sequence[Storage]) -> None:
    """Log a warning for each local data folder that other users can list or write to. Its mode is
    not changed.
    """
    for storage in storages:
        if not isinstance(storage, LocalStorage) or os.name == "nt":
            continue
        mode = stat.S_IMODE(Path(storage.location).stat().st_mode)
        if mode & (stat.S_IRWXO | stat.S_IWGRP):
            events.DATA_FOLDER_NOT_PRIVATE.log(
                logger,
                "data folder %s can be used by other users (mode %04o); to keep records private: chmod 700",
                location=storage.location,
                mode=mode,
            )


def metadata_folder(folders: Sequence[str], offline: Sequence[OfflineFolder]) -> str:
    """Return the folder of the SQLite store: the first that has one, so that the order of
    `log.dirs` may change; else the first.

    Raises: StorageFailed: the folder is offline, or one that is offline may have the store.
    """
    from kqueue.metadata.sqlite import FILE_NAME  # imported on use: a broker in memory does not need it

    errors: dict[str, StorageFailed] = dict(offline)
    existing = next((path for folder in folders if _exists(path := Path(folder, FILE_NAME))), None)
    if existing is None and errors:
        error = next(iter(errors.values()))
        raise StorageFailed(
            f"the metadata store ({FILE_NAME}) is in no data folder, and may be in one that can't be used: {error}"
        )
    path = existing or Path(folders[0], FILE_NAME)
    if str(path.parent.absolute()) in errors:
        error = errors[str(path.parent.absolute())]
        raise StorageFailed(f"the data folder with the metadata store ({FILE_NAME}) can't be used: {error}")
    return str(path.parent)


def _descriptor_cache(folder: str, folders: int, jobs: Jobs) -> DescriptorCache:
    descriptors = DescriptorCache(max(default_limit() // folders, LIMIT_MIN))
    queue = str(Path(folder).absolute())
    descriptors.sync_with(lambda run: jobs.submit(IoJob("write back unsynced files", run, _written_back, queue)))
    return descriptors


def _written_back(_: None, error: BaseException | None) -> None:
    """A file's own next use raises its failure. An error here is a defect."""
    if error is not None:
        events.INTERNAL_ERROR.log(logger, "unsynced files could not be written back", exc_info=error)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # its folder is not readable
        return False
