"""The classes that Spark calls to write: on the driver to begin and commit, in tasks for rows."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kqueue.base import events
from kqueue.base.errors import KqueueError
from kqueue.client import Client
from kqueue.spark.checked_pickle import CheckedPickle
from kqueue.spark.errors import OptionError
from kqueue.spark.sink.batch_commit import check_topic_of, commit
from kqueue.spark.sink.columns import check_columns
from kqueue.spark.sink.journal import StagedBatch
from kqueue.spark.sink.options import SinkOptions, parse_options
from kqueue.spark.sink.row_partitioning import check_target
from kqueue.spark.sink.staging_cleanup import query_id_of
from kqueue.spark.sink.transaction_commit import abandon
from kqueue.spark.sink.transaction_ids import check_transactions
from kqueue.spark.sink.write_task import BatchIdentity, TaskOutcome, send_rows, stage_rows
from kqueue.spark.source.spark_readers import without_traceback

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

logger = logging.getLogger("kqueue.spark")

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
"""Local properties that Spark sets for each micro-batch; tasks can read them."""


@dataclass
class TaskCommitMessage(WriterCommitMessage):
    """A task's message to the driver. `query_id`: None for at-least-once delivery."""

    query_id: str | None
    outcome: TaskOutcome


class BatchWriter(CheckedPickle, DataSourceArrowWriter):
    """`df.write`. After a failed write rows may be present, unless delivery is exactly-once or
    transactional.
    """

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's rows, on an executor; return its message to the driver."""
        identity = None
        if self._options.is_exactly_once:
            identity = BatchIdentity(self._options["txnAppId"], self._options["txnVersion"], _context().partitionId())
        return _write(self._options, identity, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the staged rows of all tasks, on the driver."""
        _commit(self._options, messages, self._options["txnVersion"])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Abort transactions; staged data remains until the next batch is done."""
        _abort(self._options, messages, self._options["txnVersion"])


class StreamWriter(CheckedPickle, DataSourceStreamArrowWriter):
    """`df.writeStream`: writes each micro-batch."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's rows, on an executor; return its message to the driver."""
        return _write(self._options, _identity(_context()) if self._options.is_exactly_once else None, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the staged rows of all tasks, on the driver."""
        _commit(self._options, messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Abort transactions; staged data remains until the next batch is done."""
        _abort(self._options, messages, batchId)


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """Return the writer for `DataSource.writer`. Runs on the driver.

    Raises: OptionError, RowRefused, ClientError.
    """
    if overwrite:
        raise OptionError('a topic can\'t be overwritten: write with mode("append")')
    return BatchWriter(_checked(options, schema, streaming=False))


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """Return the writer for `DataSource.streamWriter`. Raises: as `batch_writer`."""
    if overwrite:
        raise OptionError(
            'a topic can\'t be overwritten, as outputMode("complete") asks: use "append", or write each batch '
            "with foreachBatch, "
            "where txnAppId and txnVersion=the batch's id have each row written once"
        )
    return StreamWriter(_checked(options, schema, streaming=True))


def _checked(given: Mapping[str, str], schema: StructType, *, streaming: bool) -> SinkOptions:
    options = parse_options(given, streaming=streaming)
    check_columns([(field.name, field.dataType.simpleString()) for field in schema.fields], options.topic)
    check_target(options)
    if options.is_exactly_once:
        with Client(options.client) as client:
            if options.is_transactional:
                check_transactions(client, options["kafka.transaction.timeout.ms"])
            if not streaming:
                check_topic_of(client, options["txnAppId"], options["txnVersion"], options.topic)
    return options


def _write(options: SinkOptions, identity: BatchIdentity | None, rows: Iterator[pa.RecordBatch]) -> TaskCommitMessage:
    with without_traceback():
        if identity is None:
            return TaskCommitMessage(None, send_rows(options, rows))
        return TaskCommitMessage(identity.query_id, stage_rows(options, identity, rows))


def _commit(options: SinkOptions, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
    written = [message for message in messages if isinstance(message, TaskCommitMessage)]
    query_id = written[0].query_id if written else None
    if query_id is None:
        return
    staged: list[StagedBatch] | None = []
    transactions = [one.outcome.transaction for one in written if one.outcome.transaction is not None]
    for message in written:
        if message.outcome.staged is None or staged is None:
            staged = None
        else:
            staged += message.outcome.staged
    with without_traceback(), Client(options.client) as client:
        commit(client, query_id, batch_id, staged, transactions, options.topic)


def _abort(options: SinkOptions, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
    """Abort open transactions, so that readers need not wait for their timeout."""
    written = [message for message in messages if isinstance(message, TaskCommitMessage)]
    query_id = options["txnAppId"] or (written[0].query_id if written else None)
    if not options.is_transactional:
        return
    try:
        with Client(options.client) as client:
            abandon(client, query_id or query_id_of(options.checkpoint), batch_id)
    except KqueueError as error:
        events.SPARK_TRANSACTIONS_OPEN.log(
            logger, "transactions of batch %s stay open until their timeout: %s", batch=batch_id, error=error
        )


def _context() -> Any:
    context = TaskContext.get()
    assert context is not None, "rows are written in tasks"
    return context


def _identity(context: Any) -> BatchIdentity:
    query_id, batch_id = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    if query_id is None or batch_id is None:
        raise OptionError(
            "delivery=exactly-once and transactional: tasks do not know their query and batch here; use micro-batches, "
            "with a checkpoint"
        )
    return BatchIdentity(query_id, int(batch_id), context.partitionId())
