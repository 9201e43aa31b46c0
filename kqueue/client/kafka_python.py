"""Helpers for kafka-python, the client library that the commands, the demo and the collect agent
use.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kqueue.base.clock import monotonic_s

if TYPE_CHECKING:
    from kafka import KafkaProducer

FLUSH_RETRY_S = 0.01


def flush(producer: KafkaProducer) -> None:
    """Wait until every record that was sent is confirmed or refused.

    kafka-python splits a batch that the broker finds too large; a flush meanwhile ends with
    UnknownError. The flush is repeated until the parts are confirmed, for at most the producer's
    `delivery_timeout_ms`.

    Raises: KafkaError.
    """
    from kafka.errors import UnknownError

    deadline_s = monotonic_s() + producer.config["delivery_timeout_ms"] / 1000
    while True:
        try:
            producer.flush()
            return
        except UnknownError:
            if monotonic_s() > deadline_s:
                raise
        time.sleep(FLUSH_RETRY_S)


@contextlib.contextmanager
def closed_at_end(producer: KafkaProducer, timeout_s: float) -> Iterator[KafkaProducer]:
    """Close the producer at the end of the block; what is not confirmed after `timeout_s` is given
    up. An exception of the block stays what it is.

    kafka-python leaves a producer open that can't flush in time, and tries once more when it is
    collected, which prints a traceback.

    Raises: KafkaError: the block ended without an exception, and the producer could not be closed
        in time.
    """
    from kafka.errors import KafkaError

    try:
        yield producer
    except BaseException:
        with contextlib.suppress(KafkaError):
            _close(producer, timeout_s)
        raise
    _close(producer, timeout_s)


def _close(producer: KafkaProducer, timeout_s: float) -> None:
    from kafka.errors import KafkaError

    try:
        producer.close(timeout=timeout_s)
    except KafkaError:
        producer.flush = lambda timeout=None: None
        producer.close(timeout=0)
        raise
