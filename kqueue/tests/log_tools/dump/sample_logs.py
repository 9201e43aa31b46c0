"""Small logs on disk and batches in memory for the tests of dumps."""

from __future__ import annotations

from pathlib import Path

from kqueue.log_tools.dump import DumpFile, DumpOptions, Problems
from kqueue.log_tools.dump.file_dump import dump_file
from kqueue.log_tools.segments import Batch, walk
from kqueue.records.batch import ABORT
from kqueue.storage import LocalStorage, MemoryStorage
from kqueue.tests.log.helpers import append, end_transaction, open_log

ZERO = "00000000000000000000"


def made(root: Path, count: int = 6) -> Path:
    """Return the log file of a closed log of `count` batches in one segment.

    Each batch has three records; every batch but the first is in both indexes.
    """
    log = open_log(LocalStorage(root), index_interval_bytes=1)
    for number in range(count):
        append(log, *(b"value %02d" % (3 * number + each) for each in range(3)), time_ms=1000 * (number + 1))
    log.close()
    return root / "t-0" / f"{ZERO}.log"


def made_with_transactions(root: Path) -> Path:
    """Return the folder of a closed log.

    Producer 7 aborted its records at 0 and 1; producer 8 has an open transaction from 3 on.
    """
    log = open_log(LocalStorage(root))
    append(log, b"a", b"b", producer_id=7, epoch=1, base_sequence=0, transactional=True)
    end_transaction(log, ABORT, 7, epoch=1, coordinator_epoch=4)
    append(log, b"c", time_ms=5000, producer_id=8, epoch=2, base_sequence=0, transactional=True)
    log.close()
    return root / "t-0"


def batches(data: bytes, *, check: bool = True) -> list[Batch]:
    """The batches in these bytes of a log file."""
    file = MemoryStorage().open("log", create=True)
    file.append(data)
    return [batch for batch in walk(file, "log", 0, len(data), check=check) if isinstance(batch, Batch)]


def dumped(path: Path, options: DumpOptions | None = None) -> tuple[list[str], list[str], Problems]:
    """Return the lines of a file below its title, the reported sentences, and the problems."""
    told: list[str] = []
    problems = Problems(told.append)
    lines = list(dump_file(DumpFile(str(path)), options or DumpOptions(), problems))
    assert lines[0] == f"Dumping {path}"
    return lines[1:], told, problems
