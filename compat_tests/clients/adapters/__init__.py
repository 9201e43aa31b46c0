"""Loads the adapter of the client that ``--client`` names.

A client's package is imported only when its adapter is loaded.
"""

from __future__ import annotations

from importlib import import_module

from compat_tests.clients.adapters.contract import Client

MODULES = {"kafka-python": "kafka_python", "aiokafka": "aiokafka", "confluent-kafka": "confluent"}


def load(name: str) -> Client:
    """Return the adapter of this client.

    Raises: ImportError: the client is not installed.
    """
    module = import_module(f"compat_tests.clients.adapters.{MODULES[name]}")
    client: Client = module.adapter()
    return client
