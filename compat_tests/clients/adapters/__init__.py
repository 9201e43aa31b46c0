"""The adapters, by the name that ``--client`` takes; a client is imported only when it is asked
for.
"""

from __future__ import annotations

from importlib import import_module

from compat_tests.clients.adapters.contract import Client

MODULES = {"kafka-python": "kafka_python", "aiokafka": "aiokafka", "confluent-kafka": "confluent"}


def load(name: str) -> Client:
    """The adapter of this client. Raises ImportError: the client is not installed here."""
    module = import_module(f"compat_tests.clients.adapters.{MODULES[name]}")
    client: Client = module.adapter()
    return client
