"""Which implementation of the hot loops does the work: plain Python, or the kernels of `kqueue[fast]` where they are installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from kqueue.base.errors import PluginError
from kqueue.log.compaction import scanning
from kqueue.log.compaction.offset_map import OffsetMap
from kqueue.log.compaction.scanning import Kept
from kqueue.records.batch import BatchHeader

FAST = "kqueue.log.compaction.fast"  # has `ENGINE`; raises ImportError where what it needs is missing


@dataclass(frozen=True, slots=True)
class Engine:
    """The hot loops, one set of them.

    make_map(memory_bytes, load_factor, records_max=, start_offset=) -> a map with the attributes and methods of `OffsetMap`.
    index_records(map, data, header, first_offset) and kept(map, data, header, start_offset, keep_tombstones): as in `scanning`.
    """

    name: str
    make_map: Callable[..., OffsetMap]
    index_records: Callable[[OffsetMap, bytes, BatchHeader, int], int]
    kept: Callable[[OffsetMap, bytes, BatchHeader, int, bool], Kept]


PYTHON = Engine("python", OffsetMap, scanning.index_records, scanning.kept)


def engine(name: str = "auto") -> Engine:
    """The engine of this name; "auto": "fast" where it is installed, else "python".

    Raises: PluginError: no such engine, or "fast" where `kqueue[fast]` is not installed.
    """
    if name not in ("auto", "python", "fast"):
        raise PluginError(f"expected auto, python or fast as the name of a compaction engine, found {name!r}")
    if name == "python":
        return PYTHON
    try:
        return cast(Engine, importlib.import_module(FAST).ENGINE)
    except ImportError as error:
        if name == "fast":
            raise PluginError(f"the compaction engine 'fast' needs kqueue[fast]: {error}") from error
        return PYTHON
