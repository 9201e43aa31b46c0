"""Errors of the data source, the sink and the jobs on Spark."""

from __future__ import annotations

from kqueue.base.errors import KqueueError


class OptionError(KqueueError):
    """An option of a reader or writer on Spark that is unknown, has a value that can't be, or
    contradicts another; names the option.
    """


class DataLost(KqueueError):
    """Records that a reader on Spark was to read are gone: deleted by retention, or with their
    topic. `failOnDataLoss=false` goes on.
    """


class RowRefused(KqueueError):
    """A frame or a row that can't be written: a column is missing or has another type, no such
    topic or partition, too large.
    """


class StagingLost(KqueueError):
    """What a writer on Spark had staged, to be written exactly once, is not there as it was left;
    the message says what to do.
    """


class PipelineFailed(KqueueError):
    """A job on Spark ended before it was done; what Spark said, in one sentence."""
