"""Snapshots: a copy of a running broker's data in a folder, and brokers that begin with a copy of
such a folder.

A snapshot is a data folder after a clean stop and nothing else, so the folder of a stopped Kafka is
one as well.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kqueue.base.clock import SystemClock
from kqueue.base.errors import CorruptIndex, SnapshotRefused, StorageFailed
from kqueue.base.names import parse_partition_folder
from kqueue.log.formats import checkpoints
from kqueue.log.formats.checkpoints import CLEAN_SHUTDOWN, LOCK, META_PROPERTIES, OFFSET_CHECKPOINTS
from kqueue.log.log_copier import CHUNK_BYTES
from kqueue.metadata.sqlite import FILE_NAME, SqliteStore
from kqueue.metadata.store import MetadataStore
from kqueue.storage import LocalStorage, Storage

if TYPE_CHECKING:
    from kqueue.broker.broker import Broker

_COPIED = frozenset({*OFFSET_CHECKPOINTS, "bootstrap.checkpoint"})
_IGNORED = frozenset({LOCK, "lost+found"})
_DATABASE = (FILE_NAME, f"{FILE_NAME}-wal")


def take(broker: Broker, place: str) -> None:
    """Copy all data of a running broker into the folder `place`. On the broker's thread, which does
    nothing else meanwhile.

    Durability: on return the copy survives a power cut; it has the mark of a clean stop only when
    it is whole. A failure takes back what was written. Raises: SnapshotRefused, StorageFailed.
    """
    folder = Path(place)
    with _empty(folder):
        storage = LocalStorage(folder)
        store = SqliteStore(folder / FILE_NAME)
        try:
            store.commit({}, broker.metadata.under(""), ())
        finally:
            store.close()
        broker.logs.copy_to(storage)


@contextmanager
def _empty(folder: Path) -> Iterator[None]:
    """Make the folder, or see that it is empty; if it can't be filled, it is as it was before."""
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
    """The folder that a broker begins with a copy of; it is only read, so that many brokers may
    begin with it, at the same time too.

    `used`: a broker's data was filled from it; whoever owns the broker says when that data is gone
    again.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.used = False
        self._metadata: dict[str, bytes] = {}

    def fill(self, storages: Sequence[Storage], node_id: int) -> None:
        """Copy records and checkpoints into the first of these storages, all of which must be
        empty. Blocks.

        The folder becomes that of node `node_id`. Crash: without the mark of a clean stop, which
        comes last, the next start checks all. Raises SnapshotRefused: there is no such folder, it
        is no data folder, a broker uses it or did not stop cleanly, or there is data already.
        StorageFailed.
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
        """Put the metadata that `fill` has read into `store`, which must be empty; then all is
        filled. Blocks.

        Raises SnapshotRefused: `store` is not empty. StorageFailed.
        """
        if store.read("/"):
            raise SnapshotRefused(
                f"the metadata store is not empty: a copy of a snapshot ({self.folder}) needs a new one"
            )
        store.commit({}, self._metadata, ())
        self.used = True

    def _read_metadata(self) -> dict[str, bytes]:
        """Nothing where a stopped Kafka's folder is to be adopted."""
        if not (self.folder / FILE_NAME).exists():
            return {}
        # opened as a copy: SQLite writes beside the files that it reads
        with tempfile.TemporaryDirectory(prefix="kqueue-snapshot-") as own, self._reading():
            for name in _DATABASE:
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
                    f"snapshot {self.folder}: it has no {CLEAN_SHUTDOWN}, so a broker is using it, or ended in a crash; "
                    "stop that broker, or copy its data with Broker.snapshot"
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
        """What can't be read here is the snapshot's fault; what can't be written is a
        StorageFailed, and stays one.
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
