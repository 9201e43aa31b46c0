"""Settings, timeouts and errors that all adapters of confluent-kafka share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from compat_tests.clients.adapters.contract import BrokerError

CALL_TIMEOUT_S = 20
QUIET = {"log_level": 2, "reconnect.backoff.max.ms": 500}


def refuse(error: KafkaError) -> BrokerError:
    return BrokerError(error.code(), error.str())


@contextmanager
def refusals() -> Iterator[None]:
    """Raise the client's exceptions as BrokerError; negative codes are librdkafka's own."""
    try:
        yield
    except KafkaException as error:
        raise refuse(error.args[0]) from error
