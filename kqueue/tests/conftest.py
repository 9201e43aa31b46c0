from __future__ import annotations

import pytest

from kqueue.testing.pytest_plugin import leave_assertions_alone


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """What is tested runs as it does elsewhere: pytest would rewrite it, because the installed
    kqueue has a plugin.
    """
    leave_assertions_alone(pluginmanager)
