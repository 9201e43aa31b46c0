"""A small log in memory for the tests of the log tools."""

from __future__ import annotations

from kqueue.log.formats.filenames import LOG
from kqueue.log_tools import LogFolder
from kqueue.records.batch import ABORT, COMMIT
from kqueue.storage import MemoryStorage
from kqueue.tests.log.helpers import append, end_transaction, flush, open_log

FOLDER = "t-0"


def made(count: int = 12, segment_bytes: int = 400) -> tuple[MemoryStorage, list[bytes]]:
    """Return a closed log of `count` batches of three records, and its values.

    The log has several segments.
    """
    storage = MemoryStorage()
    log = open_log(storage, segment_bytes=segment_bytes, index_interval_bytes=150)
    values = [b"value %02d" % number for number in range(3 * count)]
    for number in range(count):
        append(log, *values[3 * number : 3 * number + 3])
    flush(log)
    log.close()
    return storage, values


def opened(storage: MemoryStorage) -> LogFolder:
    return LogFolder(storage, FOLDER)


def names(storage: MemoryStorage, suffix: str = LOG) -> list[str]:
    return [entry.name for entry in storage.list(FOLDER) if entry.name.endswith(suffix)]


def content(storage: MemoryStorage, name: str) -> bytes:
    return storage.read(f"{FOLDER}/{name}")


def replace(storage: MemoryStorage, name: str, data: bytes) -> None:
    file = storage.open(f"{FOLDER}/{name}", create=True)
    file.truncate(0)
    file.append(data)
    file.close()


__all__ = [
    "ABORT",
    "COMMIT",
    "FOLDER",
    "append",
    "content",
    "end_transaction",
    "flush",
    "made",
    "names",
    "open_log",
    "opened",
    "replace",
]
