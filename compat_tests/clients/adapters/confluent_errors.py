"""Settings, timeouts and errors that all adapters of confluent-kafka share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from compat_tests.clients.adapters.contract import PRODUCER_FENCED, BrokerError

CALL_TIMEOUT_S = 20
QUIET = {"log_level": 2, "reconnect.backoff.max.ms": 500, "metadata.recovery.strategy": "none"}


def refuse(error: KafkaError) -> BrokerError:
    """Return the error; librdkafka's own code for a fenced producer becomes Kafka's."""
    code = PRODUCER_FENCED if error.code() == KafkaError._FENCED else error.code()
    return BrokerError(code, error.str())


@contextmanager
def refusals() -> Iterator[None]:
    """Raise the client's exceptions as BrokerError; negative codes are librdkafka's own."""
    try:
        yield
    except KafkaException as error:
        raise refuse(error.args[0]) from error
