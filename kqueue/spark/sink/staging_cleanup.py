"""Lists and deletes staging topics of queries that no longer run. No pyspark.

Only the operator knows whether a query will be restarted, so nothing is deleted automatically. A
query needs its staging topic for the batch in progress, and after a restart to learn which batches
are done. Without it, a query that ended cleanly continues normally; after a kill, its last batch
may be written twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kqueue.base.names import did_you_mean
from kqueue.client import MAX_TIMESTAMP, Client
from kqueue.client.errors import BrokerRefused
from kqueue.spark.errors import OptionError, StagingLost
from kqueue.spark.sink.batch_commit import commit
from kqueue.spark.sink.journal import NONE, PREFIX, Journal, bounds
from kqueue.spark.sink.transaction_commit import abort_all
from kqueue.wire.error_codes import ErrorCode

_PATTERN = PREFIX.replace("-", "[-]") + ".+"


class StagedQuery(NamedTuple):
    """The staging topic of one query. Its field names are part of `kqueue pipeline sweep --json`.

    last_ms: time of its last journal entry (ms since 1970); None: none. done: its last finished
    batch, -1: none. unfinished: the batch that is decided but not fully copied; None: none. staged:
    number of staged records. unreadable: why its journal cannot be read, "" if it can.
    """

    query_id: str
    last_ms: int | None
    done: int
    unfinished: int | None
    staged: int
    unreadable: str = ""


def staged_queries(client: Client) -> list[StagedQuery]:
    """Return all queries with a staging topic, sorted by id. Raises: ClientError."""
    topics = client.metadata(pattern=_PATTERN).topics
    # A topic with one partition has no staging partitions: it is not ours.
    return [_look(client, name) for name, topic in sorted(topics.items()) if len(topic.partitions) > 1]


def _look(client: Client, topic: str) -> StagedQuery:
    journal = Journal(client, topic.removeprefix(PREFIX))
    partitions = client.metadata([topic]).topics[topic].topic_partitions
    staged = sum(
        end - begin
        for begin, end in (
            bounds(client, topic_partition)
            for topic_partition in partitions
            if topic_partition != journal.topic_partition
        )
    )
    last_ms = client.offsets({journal.topic_partition: MAX_TIMESTAMP})[journal.topic_partition].timestamp
    last = None if last_ms is None or last_ms < 0 else last_ms
    try:
        state = journal.read()
    except StagingLost as error:
        return StagedQuery(topic.removeprefix(PREFIX), last, NONE, None, staged, str(error))
    return StagedQuery(
        topic.removeprefix(PREFIX), last, state.done, None if state.decided is None else state.decided.batch_id, staged
    )


def forget(client: Client, query_id: str, *, finish: bool = True) -> None:
    """Delete the staging topic of a query that will not be restarted; abort its open transactions.

    Args:
        query_id: of a stream (`query_id_of` reads it from a checkpoint), or a batch write's
            txnAppId.
        finish: first finish a batch that is decided but not fully copied; False: discard its
            remaining rows.
    Raises: OptionError: the query has no staging topic. StagingLost, ClientError: the batch cannot
        be finished; nothing was deleted.
    """
    journal = Journal(client, query_id)
    try:
        partitions = client.metadata([journal.topic]).topics[journal.topic].partitions
    except BrokerRefused as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        there = [one.removeprefix(PREFIX) for one in client.metadata(pattern=_PATTERN).topics]
        raise OptionError(f"nothing is kept for the query {query_id!r}{did_you_mean(query_id, there)}") from None
    if len(partitions) < 2:
        raise StagingLost(f"topic {journal.topic!r} is no staging topic: it has 1 partition")
    if finish:
        state = journal.read()
        if state.decided is not None:
            commit(client, query_id, state.decided.batch_id, None)
    abort_all(client, query_id)
    client.delete_topics([journal.topic])


def query_id_of(checkpoint: str) -> str:
    """Return the query id of a local checkpoint folder. Raises: OptionError: it is not one."""
    try:
        return str(json.loads((Path(checkpoint) / "metadata").read_text())["id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OptionError(
            f"{checkpoint!r} is no checkpoint of a streaming query: its file 'metadata' names no id ({error})"
        ) from None


def unused_since(kept: Iterable[StagedQuery], before_ms: int) -> list[StagedQuery]:
    """Return the queries without journal entries since `before_ms`.

    Excludes queries without any entry and unreadable ones: they must be named explicitly.
    """
    return [one for one in kept if one.last_ms is not None and one.last_ms < before_ms and not one.unreadable]
