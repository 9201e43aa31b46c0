"""Errors of the data source, the sink and the jobs on Spark."""

from __future__ import annotations

from kqueue.base.errors import KqueueError


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
