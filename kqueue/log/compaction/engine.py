"""Which implementation of the hot loops does the work: plain Python, or the kernels of
`kqueue[fast]` where they are installed.
"""

from __future__ import annotations

import importlib
import logging
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, cast

from kqueue.base.errors import PluginError
from kqueue.base.extras import install_hint
from kqueue.log.compaction import python_engine
from kqueue.log.compaction.offset_map import OffsetMap
from kqueue.log.compaction.python_engine import RetainedRecords
from kqueue.records.batch import BatchHeader

logger = logging.getLogger("kqueue.log")
FAST = "kqueue.log.compaction.compiled_engine"  # has `ENGINE`; can't be imported where what it needs is missing
FAST_BYTES_MIN = 16 << 20
"""Importing numba costs a process 0.4 s and 140 MB; a log that is smaller than this is done by
then.
"""


class RetainedChunk(NamedTuple):
    """What stays of several batches. `size`: bytes that were gone through, 0: none; `next_offset`:
    after them.

    `data`: the batches that stay, one after another; `batches`: (end in `data`, last offset,
    greatest timestamp) of each. `read`, `kept`: records; `is_same`: all stay as they are.
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
    """The hot loops, one set of them.

    make_map(memory_bytes, load_factor, records_max=, start_offset=) -> a map with the attributes
    and methods of `OffsetMap`. index_records(map, data, header, first_offset) and kept(map, data,
    header, start_offset, keep_tombstones): as in `scanning`.

    Two that are not needed, for engines that go through many small batches at once. Both begin at
    `buf[at]` and stop before the first batch that is out of the ordinary, damaged, or ends behind
    `limit`; the batches' offsets begin at `next_offset` or later. index_chunk(map, buf, at, limit,
    next_offset, first_offset) -> (bytes that were gone through, next offset after them)
    keep_chunk(map, buf, at, limit, next_offset, start_offset, last_offsets) -> `RetainedChunk`; a batch
    that would go counts as out of the ordinary if it ends at one of `last_offsets`, an array of
    'q', rising. `data` is good until the next call.
    """

    name: str
    make_map: Callable[..., OffsetMap]
    index_records: Callable[[OffsetMap, bytes, BatchHeader, int], int]
    kept: Callable[[OffsetMap, bytes, BatchHeader, int, bool], RetainedRecords]
    index_chunk: Callable[[OffsetMap, bytes, int, int, int, int], tuple[int, int]] | None = None
    keep_chunk: Callable[[OffsetMap, bytes, int, int, int, int, array[int]], RetainedChunk] | None = None


PYTHON = CompactionEngine("python", OffsetMap, python_engine.index_records, python_engine.kept)


def engine(name: str = "auto", log_bytes: int | None = None) -> CompactionEngine:
    """The engine of this name; "auto": "fast" where it is installed, else "python".

    Args: log_bytes: how much there is to go through; below `FAST_BYTES_MIN` "auto" is "python".
    None: much. Raises: PluginError: no such engine, or "fast" where `kqueue[fast]` is not
    installed.
    """
    if name not in ("auto", "python", "fast"):
        raise PluginError(f"expected auto, python or fast as the name of a compaction engine, found {name!r}")
    if name == "python" or (name == "auto" and log_bytes is not None and log_bytes < FAST_BYTES_MIN):
        return PYTHON
    try:
        return cast(CompactionEngine, importlib.import_module(FAST).ENGINE)
    except Exception as error:  # whatever an installation that does not work raises
        if name == "fast":
            how = f"get it with: {install_hint('fast')}"
            raise PluginError(f"the compaction engine 'fast' needs the extra 'fast' ({error}); {how}") from error
        if not isinstance(error, ModuleNotFoundError):
            logger.warning("the compiled loops (the extra 'fast') do not work, compacting without it: %r", error)
        return PYTHON
