"""Every public call of each client, as data: a method `call_<name>` per method of the client.

`LEFT_OUT` names the calls that are not made, with the reason. The calls of a class run in the order
of their definition, on one broker.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

MODULES = {"kafka-python": "kafka_python_calls", "aiokafka": "aiokafka_calls", "confluent-kafka": "confluent_calls"}
TABLES = {
    "kafka-python": ("Producer", "Consumer", "Admin"),
    "aiokafka": ("Producer", "Consumer", "Admin"),
    "confluent-kafka": (
        "Producer",
        "SerializingProducer",
        "AIOProducer",
        "Consumer",
        "DeserializingConsumer",
        "ShareConsumer",
        "DeserializingShareConsumer",
        "AIOConsumer",
        "Admin",
    ),
}
"""The classes of calls in each module."""


def load(name: str) -> Any:
    """Return the module of this client.

    It has the classes of `TABLES`, `VERSION`, `TESTED_VERSION` and `OLDEST_VERSION`, the modules
    with the client's own classes (`NAMESPACES`), and those of them that have no table, with the
    reason (`OTHER_CLASSES`).
    """
    return import_module(f"compat_tests.clients.calls.{MODULES[name]}")
