"""For a server that owns its process: the limit on open files, and a garbage collector that knows
what stays.
"""

from __future__ import annotations

import contextlib
import gc

GC_THRESHOLDS = (50_000, 20, 20)


def raise_open_files_limit() -> None:
    """Allow as many open files as the system lets us have; to be called before a server starts,
    which looks at the limit.
    """
    with contextlib.suppress(
        ImportError, OSError, ValueError
    ):  # Windows; or a system that says one thing and does another
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def tune_garbage_collector() -> None:
    """What start-up made stays, so it need not be looked at again; requests make little garbage in
    cycles, so look rarely.

    To be called once a server has started; never in a process that is somebody else's.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
