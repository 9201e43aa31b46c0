"""What runs in the process of a `CpuJob`: one task, from standard input to standard output. The
other end is `processes`.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
from typing import BinaryIO

from kqueue.base.errors import JobFailed

NICENESS = 10
_plugins = contextlib.ExitStack()  # open until the process ends


def main() -> None:
    """Read a pickled task, run it, write ("done", result) or ("failed", error), pickled.

    Runs at low priority, and ends at once when standard input does: then the broker is gone, and
    another may be at its files already.
    """
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C in a terminal reaches this process too; the broker decides when it ends
    # whatever the task prints must not get between the answer's bytes
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with contextlib.suppress(OSError, AttributeError):  # Windows has no such thing
        os.nice(NICENESS)
    result = _run(sys.stdin.buffer)
    try:
        data = pickle.dumps(result)
    except Exception as error:
        data = pickle.dumps(("failed", JobFailed(f"the result can't be sent back: {error}; it is {result[1]!r:.200}")))
    with contextlib.suppress(BrokenPipeError):
        answer.write(data)
        answer.flush()
    os._exit(0)


def _run(asked: BinaryIO) -> tuple[str, object]:
    try:
        packed = pickle.load(asked)
        if packed is not None:
            from kqueue.workers.worker_plugins import unpack  # on need: few jobs come with plugins

            unpack(packed, _plugins)
        task = pickle.load(asked)
        threading.Thread(target=_end_with, args=(asked,), daemon=True).start()
        return "done", task()
    except Exception as error:
        return "failed", error


def _end_with(asked: BinaryIO) -> None:
    asked.read()
    os._exit(1)
