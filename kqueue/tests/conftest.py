from __future__ import annotations

import compileall
import contextlib
import gc
import importlib
import logging
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from kqueue.testing.pytest_plugin import leave_assertions_alone
from kqueue.tests.source_tree import APART, PACKAGE, ROOT, TESTS
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


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave tests that another environment runs to it, unless they are named: what they import is
    the heaviest of all, and each worker would import it.
    """
    if collection_path not in APART.values():
        return None
    named = (config.invocation_params.dir / argument.partition("::")[0] for argument in config.args)
    return None if any(path.is_relative_to(collection_path) for path in named) else True


# With Python's thresholds (700, 10, 10) collections took a tenth of the processor time: a test that
# builds a broker allocates that often, and what it builds still lives. These take half of that;
# larger ones take more again, because what lives is no longer in the processor's cache.
# What is left unclosed in a cycle is still reported, at most some tests later, as before.
COLLECT_EVERY = (10_000, 10, 10)


def pytest_collection(session: pytest.Session) -> None:
    """Collect no garbage while tests are collected: all that is made lives to the end."""
    gc.disable()
    if TESTS in {session.config.invocation_params.dir / argument for argument in session.config.args}:
        compile_part(**getattr(session.config, "workerinput", {}))


def compile_part(workerid: str = "gw0", workercount: int = 1, **_: object) -> None:
    """Compile the modules of this worker's part: in a new checkout each would compile all of them,
    at the same time.
    """
    paths = sorted(path for path in PACKAGE.rglob("*.py") if not any(map(path.is_relative_to, APART.values())))
    for path in paths[int(workerid.removeprefix("gw")) :: workercount]:
        if path.name.startswith("test_"):  # which pytest compiles, when it is imported
            with contextlib.suppress(Exception, pytest.skip.Exception):  # the collection says why
                importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        else:
            compileall.compile_file(path, quiet=2)


def pytest_collection_finish() -> None:
    """Leave what collection made out of all later garbage collections."""
    gc.enable()
    gc.set_threshold(*COLLECT_EVERY)
    gc.freeze()  # what is garbage among it is little, and to look for it takes each worker a second


def close_sockets_of_kafka_python() -> None:
    """Let kafka-python's sockets be closed by their end.

    It leaves one open whose last bytes were not sent when its client was closed; the warning would
    fail whatever test runs when the garbage is collected.
    """
    inet = sys.modules.get("kafka.net.inet")
    if inet is not None:
        inet.KafkaNetSocket.socket = _KafkaPythonSocket.make


class _KafkaPythonSocket(socket.socket):
    def __del__(self) -> None:
        self.close()

    @staticmethod
    def make(_: object, *arguments: Any) -> socket.socket:
        return _KafkaPythonSocket(*arguments)


def collect_if_ignored(node: pytest.Item | pytest.Module) -> None:
    """Collect what clients have left unclosed while that is ignored: a later test would fail."""
    # The marks of grids are not looked at: to print their tables takes longer than many a test.
    filters = [mark for mark in node.own_markers if mark.name == "filterwarnings"]
    if any("PytestUnraisableExceptionWarning" in str(mark.args) for mark in filters):
        gc.collect()


@pytest.fixture(scope="module", autouse=True)
def _collected_with_its_module(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    collect_if_ignored(request.node)


@pytest.fixture(autouse=True)
def _put_back(request: pytest.FixtureRequest) -> Iterator[None]:
    """Put the loggers of the process and of client libraries back as they were: `kqueue serve`, and
    `kqueue` itself, set them up for a process of their own. Collect what the test left unclosed.
    """
    loggers = [logging.getLogger(name) for name in (None, "kafka", "aiokafka")]
    before = [(logger, logger.level, logger.propagate, list(logger.handlers)) for logger in loggers]
    close_sockets_of_kafka_python()
    yield
    for logger, level, propagate, handlers in before:
        if logger.level != level:
            logger.setLevel(level)
        logger.propagate = propagate
        logger.handlers[:] = handlers
    collect_if_ignored(request.node)
