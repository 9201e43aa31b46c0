"""Staging topics of queries that are gone: to see what is there, and to let go of it. Knows no
Spark.

Nobody but who runs a query knows whether it will be started again, so nothing is deleted by itself.
A query needs its staging topic for what is under way, and, begun again, to learn what it has done.
Without it a query that ended in order goes on as if nothing were; of one that was killed, the last
batch may be written twice.
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
from kqueue.wire.error_codes import ErrorCode

_PATTERN = PREFIX.replace("-", "[-]") + ".+"


class StagedQuery(NamedTuple):
    """What is kept for one query.

    last_ms: when it last said something (ms since 1970), None: it never did. done: its last batch,
    -1 none. unfinished: the batch that is decided and not yet where it belongs, None: there is
    none. staged: records that lie on its shelves. unreadable: why its journal can't be read, "" if
    it can.
    """

    query_id: str
    last_ms: int | None
    done: int
    unfinished: int | None
    staged: int
    unreadable: str = ""


def staged_queries(client: Client) -> list[StagedQuery]:
    """All queries that a broker keeps a staging topic for, by their ids. Raises ClientError."""
    topics = client.metadata(pattern=_PATTERN).topics
    # one partition alone can be no journal with shelves: it is somebody else's
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
    """Delete the staging topic of a query that won't be started again.

    Args: query_id: of a stream (`query_id_of` finds it in a checkpoint), or a batch write's txnAppId.
    finish: first bring a batch that was decided, and is only in part where it belongs, to its end;
    False: its other rows are given up. Raises: OptionError: nothing is kept for it. StagingLost,
    ClientError: the batch can't be finished; nothing was deleted.
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
    client.delete_topics([journal.topic])


def query_id_of(checkpoint: str) -> str:
    """The id of the query that has this checkpoint, a folder of this machine. Raises OptionError:
    it is none.
    """
    try:
        return str(json.loads((Path(checkpoint) / "metadata").read_text())["id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OptionError(
            f"{checkpoint!r} is no checkpoint of a streaming query: its file 'metadata' names no id ({error})"
        ) from None


def unused_since(kept: Iterable[StagedQuery], before_ms: int) -> list[StagedQuery]:
    """Those that have said nothing since then. One that never said anything, or can't be read, has
    to be named.
    """
    return [one for one in kept if one.last_ms is not None and one.last_ms < before_ms and not one.unreadable]
