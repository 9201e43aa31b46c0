"""A broker on disk for each test, in the test's process, with what the programs have in common."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import kqueue
from compat_tests.frameworks import jvm
from compat_tests.kafka.maven import ToolFailed
from compat_tests.kafka.serving import serving

SETTINGS = {
    "group_initial_rebalance_delay_ms": 100,
    "group_streams_initial_rebalance_delay_ms": 100,
    "group_streams_heartbeat_interval_ms": 1000,
    "group_streams_min_heartbeat_interval_ms": 1000,
    "group_streams_session_timeout_ms": 6000,
    "group_streams_min_session_timeout_ms": 6000,
    "transaction_state_log_num_partitions": 4,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 500,
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[kqueue.Broker]:
    with serving(tmp_path / "data", **SETTINGS) as running:
        yield running


def pytest_configure(config: pytest.Config) -> None:
    """Fetch the jars once, before the workers of pytest-xdist need them; tests report a failure."""
    if not hasattr(config, "workerinput") and jvm.missing() is None:
        with contextlib.suppress(ToolFailed):
            jvm.JARS.fetch()


def pytest_report_header(config: pytest.Config) -> str:
    reason = jvm.missing()
    return f"frameworks in Java: {'skipped, because ' + reason if reason else 'in ' + str(jvm.JARS.folder)}"


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the compiled Java programs; skips the test where they can't be had."""
    if reason := jvm.missing():
        pytest.skip(f"skipped, because {reason}")
    return jvm.compile_programs(tmp_path_factory.mktemp("programs"))
