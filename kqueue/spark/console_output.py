"""Suppresses console output of Spark, the JVM and py4j; errors are reported as exceptions."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def stderr_to(file: Path) -> Iterator[None]:
    """Redirect standard error of the process to the end of `file` during the block.

    Processes started in the block keep writing there until they end. So a Spark that starts in it
    never writes to the terminal. Raises: OSError: the file cannot be opened.
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
    """Suppress py4j's log messages during the block, unless the root logger has handlers.

    py4j logs a stack trace for each call that Ctrl-C interrupts. The root logger would then install
    a handler for the console.
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
def lost_java_silenced() -> Iterator[None]:
    """Stop the server that pyspark's accumulators have from printing a stack trace when Java ends.
    Needs a Spark that runs.
    """
    from pyspark.accumulators import AccumulatorTCPServer

    shown = AccumulatorTCPServer.handle_error
    AccumulatorTCPServer.handle_error = lambda *_: None
    try:
        yield
    finally:
        AccumulatorTCPServer.handle_error = shown


@contextlib.contextmanager
def query_errors_silenced() -> Iterator[None]:
    """Stop pyspark from printing query errors as JSON besides raising them. Needs pyspark."""
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
