"""Errors of the data source, the sink and the jobs on Spark."""

from __future__ import annotations

import re

from kqueue.base.errors import KqueueError

PACK_HINT = (
    "make an archive of this environment with `kqueue pipeline pack`, and give it to Spark: "
    "--archives environment.tar.gz (the setting spark.archives)"
)
WORDS_MAX = 1000
_OURS = re.compile(r"^(?:\w+: )?kqueue(?:\.\w+)*\.errors\.\w+: (.+)$", re.MULTILINE)


class OptionError(KqueueError):
    """An option of the source or sink is unknown, invalid or contradicts another."""


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
    return " ".join(words.split())[:WORDS_MAX]
