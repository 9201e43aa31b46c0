"""Choice of the engine: plain Python, or compiled loops where `kqueue[fast]` is installed."""

from __future__ import annotations

import importlib
import logging
import sys
from typing import Any, Literal, get_args

from kqueue.base import events
from kqueue.base.errors import ExtraNeeded
from kqueue.base.extras import install_hint
from kqueue.records.arrow.contract import ChunkBuilder, ChunkLimits
from kqueue.records.arrow.python_engine import PythonChunkBuilder

logger = logging.getLogger("kqueue.records")
EngineName = Literal["auto", "python", "fast"]
ENGINES: tuple[str, ...] = get_args(EngineName)
FAST = "kqueue.records.arrow.compiled_engine"  # its import fails without numba
FAST_BYTES_MIN = 16 << 20
"""Below it plain Python is done before numba is imported, which takes 0.5 s."""


def chunk_builder(limits: ChunkLimits, engine: EngineName = "auto", data_bytes: int | None = None) -> ChunkBuilder:
    """Return a builder of chunks.

    Args:
        engine: "python", "fast", or "auto": "fast" where it is installed, otherwise "python".
        data_bytes: expected bytes; below `FAST_BYTES_MIN` "auto" is "python" unless the compiled
            engine is loaded already. None: many.
    Raises:
        ExtraNeeded: "fast", and `kqueue[fast]` is not installed or does not work.
        ValueError: there is no such engine.
    """
    fast = load_compiled_engine(engine, data_bytes)
    builder: ChunkBuilder = PythonChunkBuilder(limits) if fast is None else fast.CompiledChunkBuilder(limits)
    return builder


def load_compiled_engine(engine: EngineName = "auto", data_bytes: int | None = None) -> Any:
    """Return the module of the compiled engine; None: use plain Python. Args, Raises: as
    `chunk_builder`.
    """
    if engine not in ENGINES:
        raise ValueError(f"an engine is one of {', '.join(ENGINES)}, not {engine!r}")
    is_little = data_bytes is not None and data_bytes < FAST_BYTES_MIN and FAST not in sys.modules
    if engine == "python" or (engine == "auto" and is_little):
        return None
    try:
        return importlib.import_module(FAST)
    except Exception as error:  # a broken installation may raise anything
        if engine == "fast":
            raise ExtraNeeded(
                f"the engine 'fast' needs the extra 'fast' ({error}); get it with: {install_hint('fast')}"
            ) from error
        if not isinstance(error, ModuleNotFoundError):
            events.EXTRA_BROKEN.log(logger, "kqueue[fast] does not work, going on without it: %r", error=error)
        return None
