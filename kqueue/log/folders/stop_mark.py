"""The mark of a clean stop in a data folder, with the broker epoch: `.kafka_cleanshutdown`."""

from __future__ import annotations

from kqueue.log.formats import checkpoints
from kqueue.log.formats.checkpoints import CLEAN_SHUTDOWN
from kqueue.storage import Storage


def take_stop_mark(storage: Storage) -> int | None:
    """Remove the mark, durably, before anything is appended. Return its broker epoch; -1: it names
    none; None: there is no mark.
    """
    if not storage.exists(CLEAN_SHUTDOWN):
        return None
    epoch = checkpoints.decode_clean_shutdown(checkpoints.read_small_file(storage, CLEAN_SHUTDOWN))
    storage.remove(CLEAN_SHUTDOWN)
    storage.sync_folder("")
    return epoch


def write_stop_mark(storage: Storage, broker_epoch: int) -> None:
    """Write the mark. Durability: whole or missing. Raises StorageFailed."""
    storage.write_atomic(CLEAN_SHUTDOWN, checkpoints.encode_clean_shutdown(broker_epoch))
