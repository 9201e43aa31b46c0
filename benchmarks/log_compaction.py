"""Compaction, each engine in a process of its own: records per second, and memory.

`python -m benchmarks.log_compaction FOLDER ENGINE` is that process: it compacts the partition in
FOLDER and prints its cost.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import psutil

from benchmarks.log_data import START_MS, append_keyed, temporary_folder
from benchmarks.results import Figure, Row
from kqueue.base.clock import SystemClock
from kqueue.base.errors import PluginError
from kqueue.log.compaction.compaction_task import CompactionTask
from kqueue.log.compaction.engine import select_engine
from kqueue.log.compaction.model import CompactionConfig, SegmentSource
from kqueue.log.config import LogConfig
from kqueue.log.formats.filenames import CLEANED
from kqueue.log.log import Log
from kqueue.storage import LocalStorage

PARTITION = "t-0"
SOURCES = "sources.json"
SEGMENT_BYTES = 128 * 2**20
DEDUPE_BYTES = 128 * 2**20  # Kafka's default for all cleaners
AIMS = {"python": 300_000, "fast": 3_000_000}  # records a second


def compaction(records: int, keys: int) -> Row:
    figures = []
    with temporary_folder() as folder:
        write(folder, records, keys)
        for name, aim in AIMS.items():
            try:
                select_engine(name)
            except PluginError:  # kqueue[fast] is not installed
                continue
            figures += _measure(folder, name, aim, keys)
    return Row(
        f"compaction of {records / 1e6:.3g} million records of 100 bytes, {keys / 1e6:.3g} million keys",
        figures,
        "both passes, one core; memory above that of the process before",
    )


def write(folder: Path, records: int, keys: int) -> int:
    """A partition whose segments are all sealed but the last, which is empty; and a file that says
    which they are. Returns its end.
    """
    log = Log.open(LocalStorage(folder), PARTITION, LogConfig.of(segment_bytes=SEGMENT_BYTES), SystemClock())
    append_keyed(log, records, keys, random.Random(1))
    log.roll()
    infos = list(log.segments)
    log.close()
    sources = [[info.base, after.base, info.size] for info, after in pairwise(infos)]
    (folder / SOURCES).write_text(json.dumps(sources))
    return log.end_offset


def _measure(folder: Path, name: str, aim: float, keys: int) -> list[Figure]:
    command = [sys.executable, "-m", "benchmarks.log_compaction", str(folder), name]
    result = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    if result["kept"] > keys or result["kept"] != result["entries"]:
        raise RuntimeError(f"{result['kept']} records stayed of {result['entries']} keys in the map, {keys} in all")
    return [
        Figure(result["records"] / result["seconds"], f"records/s, {name}", at_least=aim),
        Figure((result["peak"] - result["before"]) / 2**20, f"MiB at most, {name}"),
    ]


def main(folder: Path, name: str) -> None:
    storage = LocalStorage(folder)
    with temporary_folder() as other:  # imports and compiles what is needed; a broker's worker does it once
        write(other, 10_000, 1_000)
        _task(LocalStorage(other), other, name)()
    before = psutil.Process().memory_info().rss
    _forget_peak()
    done = _task(storage, folder, name)()
    for entry in storage.list(PARTITION):
        if entry.name.endswith(CLEANED):
            storage.remove(f"{PARTITION}/{entry.name}")
    stats = done.stats
    result = {
        "seconds": stats.seconds,
        "records": stats.records_read,
        "kept": stats.records_kept,
        "entries": stats.map_entries,
        "before": before,
        "peak": _peak_bytes(),
    }
    print(json.dumps(result))


def _task(storage: LocalStorage, folder: Path, name: str) -> CompactionTask:
    sources = tuple(SegmentSource(base, end, size) for base, end, size in json.loads((folder / SOURCES).read_text()))
    config = LogConfig.of()
    return CompactionTask(
        storage.opener,
        PARTITION,
        sources,
        first_dirty=0,
        config=CompactionConfig(
            config.segment_bytes, config.segment_index_bytes, config.index_interval_bytes, 86_400_000, DEDUPE_BYTES
        ),
        start_offset=0,
        now_ms=START_MS,
        engine=name,
    )


def _forget_peak() -> None:
    with contextlib.suppress(OSError):  # elsewhere than on Linux the peak is that of the process's whole life
        Path("/proc/self/clear_refs").write_text("5")


def _peak_bytes() -> int:
    """The most memory that was resident since `_forget_peak`.

    On Linux not what getrusage says: that begins with the size of the process that started this
    one.
    """
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource  # not on Windows, where the rest of this package does not run either

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
