"""Errors of the data source, the sink and the jobs on Spark."""

from __future__ import annotations

import re

from kqueue.base.errors import KqueueError

PACK_HINT = (
    "make an archive of this environment with `kqueue pipeline pack`, and give it to Spark: "
    "--archives environment.tar.gz (the setting spark.archives)"
)
JAVA_ENDED = (
    "Java, in which Spark runs, ended before the job did: it was killed, or the machine had no memory left; "
    "run the job again"
)
WORDS_MAX = 1000
_CALLED = re.compile(r"^An error occurred while calling [\w.$]+\s*:\s*(?:[\w.$]+(?:Exception|Error): )?")
_THROWN = re.compile(r'^Exception in thread "[^"]*" (?:[\w.$]+: )?(.+)$', re.MULTILINE)
_NOISE = re.compile(r"\s|WARNING: |Setting |To adjust |Using |Picked up |:: |\d\d/\d\d/\d\d ")
_OURS = re.compile(r"^(?:\w+: )?kqueue(?:\.\w+)*\.errors\.\w+: (.+)$", re.MULTILINE)


class OptionError(KqueueError):
    """An option of the source or sink is unknown, invalid or contradicts another."""


class SqlRefused(OptionError):
    """SQL of an event schema is not valid."""


class DataLost(KqueueError):
    """Records to read were deleted, by retention or with their topic.

    `failOnDataLoss=false` continues without them.
    """


class RowRefused(KqueueError):
    """A frame or row cannot be written: missing or mistyped column, no such partition, size."""


class StagingLost(KqueueError):
    """Staged data of an exactly-once write is missing or changed; the message says what to do."""


class TransactionLost(KqueueError):
    """The broker aborted a transaction of a write; the message says what was written."""


class PipelineFailed(KqueueError):
    """A Spark job failed; the message is Spark's, in one sentence."""


class SchemaRefused(KqueueError):
    """A schema of values can't be used, can't be had, or does not fit another."""


class WrongValue(KqueueError):
    """A value can't be decoded by its schema; the message names the record."""


class RegistryFailed(KqueueError):
    """A registry of schemas can't be reached, or its answer is of no use."""


def error_summary(error: Exception) -> str:
    """Return Spark's message without its Java stack, or the message of a kqueue error inside it."""
    ours = _OURS.findall(str(error))
    if ours:
        return str(ours[-1]).strip()[:WORDS_MAX]
    words = re.split(r"JVM stacktrace|\n\s+at [\w.$]+\(", str(error))[0]
    return " ".join(_CALLED.sub("", words).split())[:WORDS_MAX]


def java_reason(output: str) -> str:
    """Return in a sentence why Java did not start, of what it wrote to standard error; "": it does
    not say.
    """
    thrown = _THROWN.findall(output)
    if thrown:
        return str(thrown[-1]).strip()[:WORDS_MAX]
    said = (line for line in output.splitlines() if line and not _NOISE.match(line))
    return next(said, "")[:WORDS_MAX].strip()


def is_java_lost(error: Exception) -> bool:
    """Return whether the bridge to Java, in which Spark runs, broke; connections to brokers have
    errors of their own.
    """
    is_cut = type(error).__module__.startswith("py4j.") and type(error).__name__ == "Py4JNetworkError"
    return is_cut or isinstance(error, ConnectionError)
