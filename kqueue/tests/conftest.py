from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest

from kqueue.testing.pytest_plugin import leave_assertions_alone


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Keep pytest from rewriting kqueue's own assertions, because kqueue has a plugin."""
    leave_assertions_alone(pluginmanager)


@pytest.fixture
def refused_clients() -> Iterator[None]:
    """For tests whose clients try to connect to brokers that have ended.

    kafka-python does not close the sockets of refused connections. They are collected here, or the
    warning of their end would fail whatever test runs then.
    """
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
