"""Snapshots: copies of a broker's data in a folder, and brokers that start from such a copy.

A snapshot is a data folder after a clean stop, so the folder of a stopped Kafka is one too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kqueue.base.clock import SystemClock
from kqueue.base.errors import CorruptIndex, SnapshotRefused, StorageFailed
from kqueue.base.names import parse_partition_folder
from kqueue.base.sliced_task import SlicedWork
from kqueue.log.formats import checkpoints
from kqueue.log.formats.checkpoints import CLEAN_SHUTDOWN, LOCK, META_PROPERTIES, OFFSET_CHECKPOINTS
from kqueue.log.log_copier import CHUNK_BYTES
from kqueue.metadata.store import MetadataStore
from kqueue.storage import LocalStorage, Storage

if TYPE_CHECKING:
    from kqueue.broker.metadata.cache import MetadataCache
    from kqueue.log.manager import LogManager

_COPIED = frozenset({*OFFSET_CHECKPOINTS, "bootstrap.checkpoint"})
_IGNORED = frozenset({LOCK, "lost+found"})


def take_snapshot(metadata: MetadataCache, logs: LogManager, place: str) -> SlicedWork[None]:
    """Copy all data of a running broker, as it is at the first step, into the folder `place`.

    Clients are served meanwhile: the work yields callables for jobs.
    Durability: on disk at the end. The mark of a clean stop is written last. A failure removes what
    was written.
    Raises: SnapshotRefused, StorageFailed.
    """
    folder = Path(place)
    with _empty(folder):
        storage = LocalStorage(folder)
        records = dict(metadata.with_prefix(""))
        copying = logs.copy_to(storage)
        yield partial(_write_metadata, folder, records)
        yield from copying


def _write_metadata(folder: Path, metadata: dict[str, bytes]) -> None:
    from kqueue.metadata.sqlite import FILE_NAME, SqliteStore  # on use: a broker in memory does not need it

    store = SqliteStore(folder / FILE_NAME)
    try:
        store.commit({}, metadata, ())
    finally:
        store.close()


@contextmanager
def _empty(folder: Path) -> Iterator[None]:
    """Create the folder, or check that it is empty; restore it if the body fails."""
    is_new = not folder.exists()
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise SnapshotRefused(f"{folder} is not empty: a snapshot needs a folder of its own")
    except OSError as error:
        raise SnapshotRefused(f"no snapshot can be put into {folder}: {error.strerror}") from error
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(OSError):
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            if is_new:
                folder.rmdir()
        if isinstance(error, OSError):
            raise StorageFailed(f"no snapshot could be put into {folder}: {error}") from error
        raise


class Snapshot:
    """A folder that brokers start from a copy of; read only, so that several may use it at once.

    `used`: a broker was filled from it; the owner of the broker resets it when that data is
    deleted.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.used = False
        self._metadata: dict[str, bytes] = {}

    def fill(self, storages: Sequence[Storage], node_id: int) -> None:
        """Copy records and checkpoints into the first of `storages`, all empty, for node `node_id`.

        Blocks. Crash: the mark of a clean stop comes last; without it the next start recovers all.
        Raises: SnapshotRefused: the folder is missing, is no data folder, is in use, or was not
            stopped cleanly; or a storage is not empty. StorageFailed.
        """
        properties = self._properties()
        self._metadata = self._read_metadata()
        for storage in storages:
            if any(entry.name not in _IGNORED for entry in storage.list("")):
                raise SnapshotRefused(
                    f"{storage.location} is not empty: a copy of a snapshot ({self.folder}) needs a folder of its own"
                )
        target = storages[0]
        with self._reading():
            self._copy_partitions(target)
            for name in sorted(_COPIED):
                if (self.folder / name).exists():
                    target.write_atomic(name, (self.folder / name).read_bytes())
            mark = (self.folder / CLEAN_SHUTDOWN).read_bytes()
        own = {name: value for name, value in properties.items() if name != "broker.id"} | {"node.id": str(node_id)}
        target.write_atomic(META_PROPERTIES, checkpoints.encode_properties(own, SystemClock().wall_ms()))
        target.write_atomic(CLEAN_SHUTDOWN, mark)

    def fill_store(self, store: MetadataStore) -> None:
        """Put the metadata that `fill` read into `store`, the last step. Blocks.

        Raises: SnapshotRefused: `store` is not empty. StorageFailed.
        """
        if store.read("/"):
            raise SnapshotRefused(
                f"the metadata store is not empty: a copy of a snapshot ({self.folder}) needs a new one"
            )
        store.commit({}, self._metadata, ())
        self.used = True

    def _read_metadata(self) -> dict[str, bytes]:
        """Return the metadata by key; empty for a folder of a stopped Kafka."""
        from kqueue.metadata.sqlite import FILE_NAME, SqliteStore  # on use: a broker in memory does not need it

        if not (self.folder / FILE_NAME).exists():
            return {}
        # a copy is opened: SQLite writes files beside its database
        with tempfile.TemporaryDirectory(prefix="kqueue-snapshot-") as own, self._reading():
            for name in (FILE_NAME, f"{FILE_NAME}-wal"):
                if (self.folder / name).exists():
                    shutil.copyfile(self.folder / name, Path(own, name))
            try:
                store = SqliteStore(Path(own, FILE_NAME))
                with contextlib.closing(store):
                    return {key: entry.value for key, entry in store.read("/").items()}
            except StorageFailed as error:
                raise SnapshotRefused(f"snapshot {self.folder}: {error}") from error

    def _properties(self) -> dict[str, str]:
        if not self.folder.is_dir():
            raise SnapshotRefused(f"snapshot {self.folder}: there is no such folder")
        with self._reading():
            if not (self.folder / META_PROPERTIES).is_file():
                raise SnapshotRefused(f"snapshot {self.folder}: it has no {META_PROPERTIES}, so it is no data folder")
            try:
                properties = checkpoints.decode_properties((self.folder / META_PROPERTIES).read_bytes())
            except CorruptIndex as error:
                raise SnapshotRefused(f"snapshot {self.folder}: {META_PROPERTIES}: {error}") from error
            if not (self.folder / CLEAN_SHUTDOWN).is_file():
                raise SnapshotRefused(
                    f"snapshot {self.folder}: it has no {CLEAN_SHUTDOWN}, so a broker is using it, "
                    "or ended in a crash; stop that broker, or copy its data with Broker.snapshot"
                )
        return properties

    def _copy_partitions(self, target: Storage) -> None:
        for folder in sorted(
            path for path in self.folder.iterdir() if path.is_dir() and parse_partition_folder(path.name)
        ):
            target.make_folder(folder.name)
            for path in sorted(folder.iterdir()):
                if path.is_file():
                    _copy_file(path, target, f"{folder.name}/{path.name}")
            target.sync_folder(folder.name)
        target.sync_folder("")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Raise SnapshotRefused for what cannot be read; StorageFailed of the target passes
        through.
        """
        try:
            yield
        except (OSError, CorruptIndex) as error:
            raise SnapshotRefused(f"snapshot {self.folder}: {error}") from error


def _copy_file(path: Path, target: Storage, name: str) -> None:
    file = target.open(name, create=True)
    with path.open("rb") as original:
        while data := original.read(CHUNK_BYTES):
            file.append(data)
    if file.size:
        file.sync()
    file.close()
