"""Kafka Streams 4.3 over both group protocols: internal topics, state restored from a changelog,
exactly_once_v2.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import kqueue
from compat_tests.frameworks import jvm
from compat_tests.frameworks.conftest import SETTINGS
from compat_tests.frameworks.running import Program
from compat_tests.frameworks.words import PARTITIONS, WordCount

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "streams"])


@PROTOCOLS
def test_a_word_count_counts_exactly_once_over_a_crash(
    programs: Path, broker: kqueue.Broker, tmp_path: Path, protocol: str
) -> None:
    job = WordCount(broker, int)
    arguments = (broker.bootstrap, str(tmp_path / "state"), protocol)
    job.run_over_a_cut_transaction(Program(jvm.command("WordCount", *arguments, programs=programs), tmp_path / "app"))
    own = {name: broker.topics[name] for name in broker.topics if name.startswith("counting-")}
    assert sorted(own) == ["counting-totals-changelog", "counting-totals-repartition"]
    assert {one.partitions for one in own.values()} == {PARTITIONS}
    assert own["counting-totals-changelog"].config["cleanup.policy"] == ["compact"]


@PROTOCOLS
def test_a_word_count_restores_its_state_from_the_broker(
    programs: Path, broker: kqueue.Broker, tmp_path: Path, protocol: str
) -> None:
    """The second instance has no files of the first: its state comes from the changelog topic."""
    job = WordCount(broker, int)
    for instance in ("first", "second"):
        job.send()
        arguments = (broker.bootstrap, str(tmp_path / instance), protocol)
        with Program(jvm.command("WordCount", *arguments, programs=programs), tmp_path / "app") as program:
            program.wait_until(job.is_complete, f"the counts of the {instance} instance")
            program.stop()
    job.assert_exactly_once()


@PROTOCOLS
def test_a_word_count_goes_on_over_a_restart_of_the_broker(
    programs: Path, broker: kqueue.Broker, tmp_path: Path, protocol: str
) -> None:
    """The program is not started again: its group, its transaction and its tasks are in the log."""
    job = WordCount(broker, int)
    arguments = (broker.bootstrap, str(tmp_path / "state"), protocol)
    with Program(jvm.command("WordCount", *arguments, programs=programs), tmp_path / "app") as program:
        job.send()
        program.wait_until(job.is_complete, "the counts of the first part")
        for _ in range(2):
            job.send()
            broker.restart()
            program.wait_until(job.is_complete, "the counts after a restart")
        program.stop()
    job.assert_exactly_once()


class TopicOfCluster:
    """A topic as `WordCount` uses it, by the leaders of its partitions."""

    def __init__(self, cluster: kqueue.Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name

    def _on_leader(self, partition: int) -> Any:
        return self._cluster[self._cluster.wait_leader(self._name, partition)].topics[self._name]

    def produce_all(self, pairs: Sequence[tuple[str, str]]) -> None:
        for partition in range(PARTITIONS):
            self._on_leader(partition).produce_all(pairs[partition::PARTITIONS], partition=partition)

    def records(self, *, read_committed: bool) -> list[Any]:
        return [
            record
            for partition in range(PARTITIONS)
            for record in self._on_leader(partition).records(partition, read_committed=read_committed)
        ]


class BrokersOfCluster:
    """A cluster in place of the broker of `WordCount`."""

    def __init__(self, cluster: kqueue.Cluster) -> None:
        self._cluster = cluster
        self.topics: dict[str, TopicOfCluster] = {}

    def create_topic(self, name: str, partitions: int) -> None:
        self._cluster.create_topic(name, partitions)
        self.topics[name] = TopicOfCluster(self._cluster, name)


@PROTOCOLS
def test_a_word_count_goes_on_while_brokers_of_a_cluster_are_killed(
    programs: Path, tmp_path: Path, protocol: str
) -> None:
    """Each broker in turn: leaders of all its topics, and the coordinators of its group and its
    transactions.
    """
    settings = {"min.insync.replicas": 2, **{name.replace("_", "."): value for name, value in SETTINGS.items()}}
    with kqueue.Cluster(3, tmp_path / "data", settings=settings) as cluster:
        brokers: Any = BrokersOfCluster(cluster)
        job = WordCount(brokers, int)
        arguments = (cluster.bootstrap, str(tmp_path / "state"), protocol)
        with Program(jvm.command("WordCount", *arguments, programs=programs), tmp_path / "app") as program:
            job.send()
            program.wait_until(job.is_complete, "the counts of the first part")
            for node in range(3):
                job.send()
                cluster.kill(node)
                program.wait_until(job.is_complete, f"the counts without broker {node}")
                cluster.restore()
            program.stop()
        job.assert_exactly_once()
