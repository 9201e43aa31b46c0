"""Apache Kafka for the tests: skipped, with the reason, where it can't be run. At most two JVMs run
at a time in a worker of xdist: a node, and one for tools and programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.kafka import jvm
from compat_tests.kafka.node import Kafka, archive_classes
from compat_tests.kafka.serving import serving
from compat_tests.kafka.tool_host import ToolHost, missing, tool_host

pytest_plugins = ["compat_tests.call_report"]
OWN_NODES = (
    "test_acl_decisions",
    "test_back_and_forth",
    "test_consumer_groups",
    "test_deleted_producers",
    "test_open_transactions",
    "test_snapshots",
    "test_spark_transactions",
    "test_streams_groups",
)
# With Kafka's own minima every wait for a member that is gone lasts 6 s, each member of a share
# group learns what it has after 5 s, and each lock lasts 15 s.
EITHER = {
    "group_min_session_timeout_ms": 500,
    "group_share_min_heartbeat_interval_ms": 200,
    "group_share_heartbeat_interval_ms": 200,
    "group_share_min_record_lock_duration_ms": 1000,
    "group_initial_rebalance_delay_ms": 0,
    "auto_create_topics_enable": False,
}


def pytest_report_header(config: pytest.Config) -> str:
    reason = jvm.missing()
    return f"Apache Kafka {jvm.KAFKA_VERSION}: {'skipped, because ' + reason if reason else 'in ' + str(jvm.libs())}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = missing()
    if reason:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=f"skipped, because {reason}"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a file together, as they share a node; but those of `OWN_NODES` start nodes
    of their own, for half a minute each, so that workers share them.
    """
    from xdist.scheduler import LoadScopeScheduling

    class NodeScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::")[0]
            return nodeid if Path(file).stem in OWN_NODES else file

    return NodeScheduling(config, log)


@pytest.fixture(scope="session")
def formatted(tmp_path_factory: pytest.TempPathFactory) -> Kafka:
    """A node that was formatted and never started, for others to copy."""
    node = Kafka(tmp_path_factory.mktemp("formatted"))
    node.format()
    archive_classes(node, tmp_path_factory.mktemp("archive"))
    return node


@pytest.fixture
def kafka(formatted: Kafka, tmp_path: Path) -> Iterator[Kafka]:
    """A fresh node of the test's own, not started yet; killed at the end if the test left it
    running.
    """
    node = Kafka(tmp_path / "kafka").copy_from(formatted)
    yield node
    node.kill()


@pytest.fixture(scope="session")
def tools() -> ToolHost:
    """Runs Kafka's tools, and the programs in `java`."""
    if reason := missing():
        pytest.skip(f"skipped, because {reason}")
    return tool_host()


@pytest.fixture(scope="module", params=["Kafka", "kqueue"])
def either(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where to reach Kafka, then kqueue: what a test expects of kqueue it finds on Kafka first."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "kqueue":
        with serving(folder / "data", **EITHER) as broker:
            yield broker.bootstrap
    else:
        own = {name.replace("_", "."): value for name, value in EITHER.items()}
        template: Kafka = request.getfixturevalue("formatted")
        with Kafka(folder / "kafka", settings=own).copy_from(template) as node:
            yield node.bootstrap
