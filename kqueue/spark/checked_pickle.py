"""Pickles objects for executors so that an executor without kqueue says so in one sentence.

Unpickling looks classes up, which fails without kqueue before any of its code runs. What is pickled
here brings the function that unpickles it as code. Executors without pyarrow fail still earlier, in
Spark's own function; `executors.check_executors` finds them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kqueue.base.version import __version__
from kqueue.spark.errors import PACK_HINT


class CheckedPickle:
    """Base of data sources, readers and writers. They have a dictionary of attributes."""

    def __reduce__(self) -> tuple[Callable[[bytes], object], tuple[bytes]]:
        """Return the function and its argument, for pickle."""
        from pyspark import cloudpickle

        return _unpickler(__version__, PACK_HINT), (cloudpickle.dumps((type(self), self.__getstate__())),)


def _unpickler(version: str, remedy: str) -> Callable[[bytes], object]:
    """Return a function that cloudpickle pickles as code, because no module has it."""

    def unpickle(data: bytes) -> Any:
        import os
        import pickle
        import socket
        import sys

        own_version = None
        try:
            from kqueue.base import version as installed

            own_version = installed.__version__
        except ImportError:
            pass
        if own_version != version:
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # Spark ends this process after the error
            has = "no kqueue" if own_version is None else f"kqueue {own_version}, and the driver has {version}"
            raise RuntimeError(
                f"the executor on {socket.gethostname()} runs {sys.executable}, which has {has}: {remedy}"
            )
        kind, state = pickle.loads(data)
        made = object.__new__(kind)
        made.__dict__.update(state)
        return made

    return unpickle
