"""Every public call of each client, as data: a method `call_<name>` per method of the client.

`LEFT_OUT` names the calls that are not made, with the reason. The calls of a class run in the order
of their definition, on one broker.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

MODULES = {"kafka-python": "kafka_python_calls", "aiokafka": "aiokafka_calls", "confluent-kafka": "confluent_calls"}


def load(name: str) -> Any:
    """Return the module with `TESTED_VERSION`, `VERSION` and `CALLS` of this client."""
    return import_module(f"compat_tests.clients.calls.{MODULES[name]}")
