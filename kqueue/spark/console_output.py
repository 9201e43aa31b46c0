"""Keeps off the screen what Spark, its Java and the bridge to it say on their own; what is wrong is
told by exceptions.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def stderr_to(file: Path) -> Iterator[None]:
    """Let standard error of the whole process go to the end of `file` during the block; what is
    started in it writes there to its end.

    So a Spark that is started in it says on no screen that it is there, what it warns of, and how
    it ends. Raises OSError: no such file.
    """
    with file.open("ab") as out:
        sys.stderr.flush()
        kept = os.dup(2)
        try:
            os.dup2(out.fileno(), 2)
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)


@contextlib.contextmanager
def py4j_silenced() -> Iterator[None]:
    """Keep what py4j logs during the block to itself, unless somebody has set logging up.

    It logs a stack for each call that Ctrl-C falls into, through the root logger too, which then
    makes itself a handler for the screen.
    """
    root, py4j, handler = logging.getLogger(), logging.getLogger("py4j"), logging.NullHandler()
    if root.handlers:
        yield
        return
    root.addHandler(handler)
    py4j.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        py4j.removeHandler(handler)


@contextlib.contextmanager
def query_errors_silenced() -> Iterator[None]:
    """Keep pyspark from writing an error of a query to the screen as JSON, beside raising it,
    during the block. pyspark has to be there.
    """
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(name) for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
