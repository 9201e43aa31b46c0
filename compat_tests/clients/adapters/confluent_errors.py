"""What every call to confluent-kafka needs: settings, a bound of time, its errors."""

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
    """The client's exceptions as BrokerError (negative numbers are librdkafka's own errors)."""
    try:
        yield
    except KafkaException as error:
        raise refuse(error.args[0]) from error
