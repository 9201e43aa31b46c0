"""Helpers for kafka-python, the client library that the commands, the demo and the collect agent
use.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

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

    deadline_s = time.monotonic() + producer.config["delivery_timeout_ms"] / 1000
    while True:
        try:
            producer.flush()
            return
        except UnknownError:
            if time.monotonic() > deadline_s:
                raise
        time.sleep(FLUSH_RETRY_S)
