from __future__ import annotations

import pytest

from kqueue.testing.pytest_plugin import leave_assertions_alone


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Keep pytest from rewriting kqueue's own assertions, which it does to packages with a plugin."""
    leave_assertions_alone(pluginmanager)
