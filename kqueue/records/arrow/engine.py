"""Which implementation makes columns: plain Python, or the compiled loops of `kqueue[fast]` where
they are installed.
"""

from __future__ import annotations

import importlib
import logging
import sys
from typing import Any, Literal, get_args

from kqueue.base.errors import ExtraNeeded
from kqueue.base.extras import install_hint
from kqueue.records.arrow.contract import ChunkBuilder, ChunkLimits
from kqueue.records.arrow.python_engine import PythonChunkBuilder

logger = logging.getLogger("kqueue.records")
EngineName = Literal["auto", "python", "fast"]
ENGINES: tuple[str, ...] = get_args(EngineName)
FAST = "kqueue.records.arrow.compiled_engine"  # can't be imported where what it needs is missing
FAST_BYTES_MIN = 16 << 20
"""Importing numba costs a process half a second; less than this is done by then."""


def chunk_builder(limits: ChunkLimits, engine: EngineName = "auto", data_bytes: int | None = None) -> ChunkBuilder:
    """What gathers records into pieces.

    Args: engine: "auto": "fast" where it is installed, else "python". data_bytes: how much there
    will be; below `FAST_BYTES_MIN` "auto" is "python", unless the other has been loaded already.
    None: much. Raises: ExtraNeeded: "fast" where `kqueue[fast]` is not installed, or does not work.
    ValueError: no such engine.
    """
    fast = load_compiled_engine(engine, data_bytes)
    found: ChunkBuilder = PythonChunkBuilder(limits) if fast is None else fast.CompiledChunkBuilder(limits)
    return found


def load_compiled_engine(engine: EngineName = "auto", data_bytes: int | None = None) -> Any:
    """The compiled engine, None: the plain one does it. Args, Raises: as `chunk_builder`."""
    if engine not in ENGINES:
        raise ValueError(f"an engine is one of {', '.join(ENGINES)}, not {engine!r}")
    is_little = data_bytes is not None and data_bytes < FAST_BYTES_MIN and FAST not in sys.modules
    if engine == "python" or (engine == "auto" and is_little):
        return None
    try:
        return importlib.import_module(FAST)
    except Exception as error:  # whatever an installation that does not work raises
        if engine == "fast":
            raise ExtraNeeded(
                f"the engine 'fast' needs the extra 'fast' ({error}); get it with: {install_hint('fast')}"
            ) from error
        if not isinstance(error, ModuleNotFoundError):
            logger.warning("kqueue[fast] does not work, going on without it: %r", error)
        return None
