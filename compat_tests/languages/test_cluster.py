"""Clients of other languages work while brokers of a cluster of three are killed and stopped."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kqueue
from compat_tests.languages.conftest import SETTINGS
from compat_tests.languages.toolchains import PROGRAMS, Programs
from compat_tests.waits import HangLimit
from kqueue.base.coordinators import coordinator_partition

OFFSETS_TOPIC = "__consumer_offsets"
PARTITIONS = 4
COUNT = 400
WAIT_S = 60
OWN_SETTINGS = {
    **{name.replace("_", "."): value for name, value in SETTINGS.items()},
    "min.insync.replicas": 2,
    "offsets.topic.num.partitions": PARTITIONS,
}
WITHOUT_GROUPS = ("rskafka",)
AT_LEAST_ONCE = ("rskafka",)
"""It has no idempotent producer."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kqueue.Cluster]:
    with kqueue.Cluster(3, tmp_path_factory.mktemp("cluster"), settings=OWN_SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: kqueue.Cluster) -> Iterator[kqueue.Cluster]:
    """All brokers run, in sync; those that a test ended are started after it."""
    yield running
    running.restore()


def change_leader(cluster: kqueue.Cluster, event: Callable[[int], None], topic: str, partition: int = 0) -> None:
    """Let another broker lead the partition, and start the former leader again."""
    leader = cluster.wait_leader(topic, partition)
    event(leader)
    cluster.wait_leader(topic, partition, other_than=leader)
    cluster.restore()


def values(cluster: kqueue.Cluster, topic: str) -> list[str]:
    """Return the records of a topic, as its leader has them."""
    leader = cluster.wait_leader(topic)
    return [(record.value or b"").decode() for record in cluster[leader].topics[topic].records()]


@pytest.mark.parametrize("name", PROGRAMS)
def test_records_are_written_and_read_over_changes_of_leaders(
    name: str, programs: Programs, cluster: kqueue.Cluster, tmp_path: Path
) -> None:
    """The leader is stopped, then the coordinator of the group killed, then the leader killed."""
    command = programs.command(name)
    if isinstance(command, str):
        pytest.skip(f"skipped, because {command}")
    topic = f"{name}-records"
    cluster.create_topic(topic)
    coordinator = (topic, 0) if name in WITHOUT_GROUPS else (OFFSETS_TOPIC, coordinator_partition(topic, PARTITIONS))
    changes = ((cluster.stop, (topic, 0)), (cluster.kill, coordinator), (cluster.kill, (topic, 0)))
    log = tmp_path / "program.log"
    arguments = [*command, cluster.bootstrap, topic, str(COUNT)]
    with log.open("w") as errors, subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=errors, text=True) as job:
        try:
            for part, (event, changed) in enumerate(changes, 1):
                limit = HangLimit(f"{part * COUNT // 5} records", WAIT_S)
                while (count := len(values(cluster, topic))) < part * COUNT // 5:
                    assert job.poll() is None, log.read_text()
                    limit.check(count, log.read_text())
                change_leader(cluster, event, *changed)
            out, _ = job.communicate(timeout=WAIT_S)
        finally:
            job.kill()
    assert job.returncode == 0, log.read_text()
    expected = [str(number) for number in range(COUNT)]
    assert json.loads(out) == expected
    written = values(cluster, topic)
    assert (list(dict.fromkeys(written)) if name in AT_LEAST_ONCE else written) == expected
