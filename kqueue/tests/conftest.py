from __future__ import annotations

import gc

import pytest

from kqueue.testing.pytest_plugin import leave_assertions_alone


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Keep pytest from rewriting kqueue's own assertions, because kqueue has a plugin."""
    leave_assertions_alone(pluginmanager)


def pytest_collection_finish() -> None:
    """Leave what collection made out of all later garbage collections: it lives to the end."""
    gc.collect()
    gc.freeze()
