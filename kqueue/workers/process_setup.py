"""Settings of a process that belongs to the server alone: open files and garbage collection."""

from __future__ import annotations

import contextlib
import gc

GC_THRESHOLDS = (50_000, 20, 20)


def raise_open_files_limit() -> None:
    """Raise the limit on open files to the hard limit. Call it before a server starts, which reads
    the limit.
    """
    with contextlib.suppress(ImportError, OSError, ValueError):  # Windows, or a system that refuses its own hard limit
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def tune_garbage_collector() -> None:
    """Exclude the objects of the start-up from garbage collection, and collect rarely: requests
    create few reference cycles.

    Call it once a server has started, and never in a process that runs other code.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
