"""The transactional ids of a query. No pyspark.

A transaction of a finished task stays open until the driver ends it, so nobody else may use its id
before its batch is done: not another attempt of the task, nor another query. Ids are made by the
processes that use them, and kept there for later batches, because brokers remember each for a week.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from kqueue.client import Client, ResourceType, TransactionalProducer
from kqueue.client.errors import BrokerRefused, IncompatibleBroker
from kqueue.spark.errors import OptionError
from kqueue.spark.options import STAGING_PREFIX
from kqueue.wire.error_codes import ErrorCode

LOST = {
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
}
"""Answers about a transaction that was ended by someone else, or took too long."""

LIMIT = "transaction.max.timeout.ms"

_free: dict[tuple[str, str], list[tuple[str, int]]] = {}
"""By bootstrap servers and query id: ids, and the last batch that each was used for."""
_lock = threading.Lock()


def pattern_of(query_id: str) -> str:
    """Return the pattern of a query's transactional ids."""
    return re.escape(f"{STAGING_PREFIX}{query_id}-") + "[0-9a-f]{32}"


@contextmanager
def borrowed_id(client: Client, query_id: str, batch_id: int, done: int) -> Iterator[str]:
    """Yield an id that this process used for batches up to `done`, or a new one.

    After an error it is not used again.
    """
    key = client.options.bootstrap, query_id
    with _lock:
        kept = _free.setdefault(key, [])
        usable = next((one for one in kept if one[1] <= done), None)
        if usable is not None:
            kept.remove(usable)
    name = f"{STAGING_PREFIX}{query_id}-{uuid.uuid4().hex}" if usable is None else usable[0]
    yield name
    with _lock:
        _free.setdefault(key, []).append((name, batch_id))


def drop_free_ids() -> None:
    """Forget the ids of this process."""
    with _lock:
        _free.clear()


def begin_producer(client: Client, transactional_id: str, timeout_ms: int) -> TransactionalProducer:
    """Return a producer of this id. Raises: OptionError: brokers do not allow the timeout.
    ClientError.
    """
    try:
        return client.transactions.init(transactional_id, timeout_ms)
    except BrokerRefused as error:
        if error.code != ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise
        raise OptionError(too_long(timeout_ms)) from None


def check_transactions(client: Client, timeout_ms: int) -> None:
    """Check that the brokers have what a transactional write needs, and allow the timeout. What may
    not be seen, tasks find out. Raises: OptionError, ClientError.
    """
    try:
        client.transactions.describe(f"{STAGING_PREFIX}nobody")
    except BrokerRefused:  # there is none, or it may not be seen
        pass
    except IncompatibleBroker as error:
        raise OptionError(
            f"delivery=transactional needs Kafka 3.0 or later, which tells how transactions ended ({error}); "
            "delivery=exactly-once writes to every Kafka"
        ) from None
    broker = min(client.metadata([]).brokers)
    try:
        configs = client.configs(ResourceType.BROKER, [str(broker)], [LIMIT])[str(broker)]
    except BrokerRefused:
        return
    allowed = configs[LIMIT].value if LIMIT in configs else None
    if allowed is not None and timeout_ms > int(allowed):
        raise OptionError(too_long(timeout_ms, allowed))


def too_long(timeout_ms: int, allowed: str | None = None) -> str:
    """Return the message for a timeout that brokers do not allow. `allowed`: None: unknown."""
    limit = "" if allowed is None else f" ({allowed})"
    return (
        f"kafka.transaction.timeout.ms={timeout_ms} is longer than the brokers' {LIMIT}{limit}: "
        "lower it, or have the brokers' setting raised"
    )
