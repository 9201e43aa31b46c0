from __future__ import annotations

import gc
import logging
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from kqueue.testing.pytest_plugin import leave_assertions_alone
from kqueue.tests.thorough import examples

settings.register_profile(
    # An example that takes long, or longer than once before, says that the machine is busy.
    "busy machines",
    settings.default,
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("busy machines")


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Keep pytest from rewriting kqueue's own assertions, because kqueue has a plugin."""
    leave_assertions_alone(pluginmanager)


def pytest_collection_finish() -> None:
    """Leave what collection made out of all later garbage collections: it lives to the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _loggers() -> Iterator[None]:
    """Put the loggers of the process and of client libraries back as they were: `kqueue serve`, and
    `kqueue` itself, set them up for a process of their own.
    """
    loggers = [logging.getLogger(name) for name in (None, "kafka", "aiokafka")]
    before = [(logger, logger.level, logger.propagate, list(logger.handlers)) for logger in loggers]
    yield
    for logger, level, propagate, handlers in before:
        logger.setLevel(level)
        logger.propagate = propagate
        logger.handlers[:] = handlers
