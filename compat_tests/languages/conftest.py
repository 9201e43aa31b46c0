"""The programs, built once, and a broker for each: kqueue on disk, or the one that is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.kafka.serving import serving
from compat_tests.languages.toolchains import PROGRAMS, Programs

pytest_plugins = ["compat_tests.call_report"]
SETTINGS = {
    "auto_create_topics_enable": False,
    "group_initial_rebalance_delay_ms": 0,
    "group_consumer_heartbeat_interval_ms": 200,
    "group_consumer_min_heartbeat_interval_ms": 200,
    "group_share_heartbeat_interval_ms": 200,
    "group_share_min_heartbeat_interval_ms": 200,
}
"""A group does not wait for members that may come, and a member soon learns its partitions."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bootstrap", help="run the programs on this broker, whose node id is 1")


def pytest_report_header(config: pytest.Config) -> list[str]:
    toolchains = dict.fromkeys(PROGRAMS.values())
    return [f"{one.language}: {one.missing() or 'there'}" for one in toolchains]


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    with Programs(tmp_path_factory.mktemp("programs")) as built:
        yield built


@pytest.fixture
def bootstrap(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where to reach the broker."""
    if named := request.config.getoption("--bootstrap"):
        yield named
        return
    with serving(tmp_path, **SETTINGS) as broker:
        yield broker.bootstrap
