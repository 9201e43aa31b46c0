"""Main function of a worker process: runs one task, from standard input to standard output.

The other end is `subprocess_runner`.
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

    Runs at low priority, and ends at once when standard input closes: then the broker is gone, and
    another broker may use its files.
    """
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C in a terminal reaches this process too, but the broker ends it
    # output of the task must not mix with the reply
    reply = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with contextlib.suppress(OSError, AttributeError):  # not on Windows
        os.nice(NICENESS)
    result = _run(sys.stdin.buffer)
    try:
        data = pickle.dumps(result)
    except Exception as error:
        data = pickle.dumps(("failed", JobFailed(f"the result can't be sent back: {error}; it is {result[1]!r:.200}")))
    with contextlib.suppress(BrokenPipeError):
        reply.write(data)
        reply.flush()
    os._exit(0)


def _run(request: BinaryIO) -> tuple[str, object]:
    try:
        packed = pickle.load(request)
        if packed is not None:
            from kqueue.workers.worker_plugins import load_manifest  # on use: few jobs need plugins

            load_manifest(packed, _plugins)
        task = pickle.load(request)
        threading.Thread(target=_end_with, args=(request,), daemon=True).start()
        return "done", task()
    except Exception as error:
        return "failed", error


def _end_with(request: BinaryIO) -> None:
    request.read()
    os._exit(1)
