"""Chooses the implementation of compaction's inner loops: plain Python, or compiled with numba.

There are two because numba is optional (`kqueue[fast]`) and compiles to five times the speed: 0.6
against 3 million records/s. The plain one is the specification: tests compare every result.
"""

from __future__ import annotations

import importlib
import logging
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, cast

from kqueue.base import events
from kqueue.base.errors import PluginError
from kqueue.base.extras import install_hint
from kqueue.log.compaction import python_engine
from kqueue.log.compaction.offset_map import OffsetMap
from kqueue.log.compaction.python_engine import RetainedRecords
from kqueue.records.batch import BatchHeader

logger = logging.getLogger("kqueue.log")
FAST = "kqueue.log.compaction.compiled_engine"  # has `ENGINE`; can't be imported where what it needs is missing
FAST_BYTES_MIN = 16 << 20
"""Importing numba costs a process 0.4 s and 140 MB. A smaller log is compacted in less time."""


class RetainedChunk(NamedTuple):
    """The rest of several batches after compaction.

    size: bytes that were processed, 0: none. next_offset: after them.
    data: the batches that stay, one after another.
    batches: (end in `data`, last offset, greatest timestamp) of each.
    read, kept: counts of records. is_same: all stay unchanged.
    """

    size: int
    next_offset: int
    data: memoryview
    batches: list[tuple[int, int, int]]
    read: int
    kept: int
    is_same: bool


@dataclass(frozen=True, slots=True)
class CompactionEngine:
    """One implementation of the inner loops.

    make_map(memory_bytes, load_factor, records_max=, start_offset=): returns an `OffsetMap`.
    index_records(map, data, header, first_offset), kept(map, data, header, start_offset,
    keep_tombstones): as in `python_engine`.

    The other two are optional and process many small batches in one call. Both begin at `buf[at]`
    and stop before the first batch that is unusual, damaged, or ends beyond `limit`; offsets are at
    least `next_offset`.
    index_chunk(map, buf, at, limit, next_offset, first_offset): returns (bytes that were processed,
    next offset after them).
    keep_chunk(map, buf, at, limit, next_offset, start_offset, last_offsets): returns a
    `RetainedChunk`, whose `data` is valid until the next call. last_offsets: array of 'q', rising;
    a batch that would be dropped counts as unusual if it ends at one of them.
    """

    name: str
    make_map: Callable[..., OffsetMap]
    index_records: Callable[[OffsetMap, bytes, BatchHeader, int], int]
    kept: Callable[[OffsetMap, bytes, BatchHeader, int, bool], RetainedRecords]
    index_chunk: Callable[[OffsetMap, bytes, int, int, int, int], tuple[int, int]] | None = None
    keep_chunk: Callable[[OffsetMap, bytes, int, int, int, int, array[int]], RetainedChunk] | None = None


PYTHON = CompactionEngine("python", OffsetMap, python_engine.index_records, python_engine.kept)


def select_engine(name: str = "auto", log_bytes: int | None = None) -> CompactionEngine:
    """Return the engine of this name; "auto": "fast" if it is installed, else "python".

    Args: log_bytes: size of the log; below `FAST_BYTES_MIN` "auto" is "python". None: large.
    Raises: PluginError: there is no such engine, or "fast" is not installed.
    """
    if name not in ("auto", "python", "fast"):
        raise PluginError(f"expected auto, python or fast as the name of a compaction engine, found {name!r}")
    if name == "python" or (name == "auto" and log_bytes is not None and log_bytes < FAST_BYTES_MIN):
        return PYTHON
    try:
        return cast(CompactionEngine, importlib.import_module(FAST).ENGINE)
    except Exception as error:  # a broken installation may raise anything
        if name == "fast":
            how = f"get it with: {install_hint('fast')}"
            raise PluginError(f"the compaction engine 'fast' needs the extra 'fast' ({error}); {how}") from error
        if not isinstance(error, ModuleNotFoundError):
            events.EXTRA_BROKEN.log(
                logger, "the compiled loops (the extra 'fast') do not work, compacting in plain Python: %r", error=error
            )
        return PYTHON
