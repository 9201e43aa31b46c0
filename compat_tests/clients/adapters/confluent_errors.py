"""Settings, timeouts and errors that all adapters of confluent-kafka share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
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


def bounded(call: Callable[[], object]) -> None:
    """Run a call that librdkafka (seen in 2.16) may never return from, whatever timeout it has got:
    it loses the answer when the coordinator is killed at the wrong moment.

    Raises: TimeoutError: the thread of the call stays behind; the client can't be used any more.
    """
    errors: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(CALL_TIMEOUT_S + 10)
    if thread.is_alive():
        raise TimeoutError("librdkafka lost the answer")
    if errors:
        raise errors[0]
