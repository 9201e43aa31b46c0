"""Data folders and stores of a cluster that are put back from copies."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

import kqueue
from kqueue.base.errors import KqueueError
from kqueue.embedded import Cluster
from kqueue.embedded.cluster import STORE_FILE
from kqueue.log.folders.registration_mark import REGISTRATION_MARK
from kqueue.tests.thorough import corners

pytestmark = pytest.mark.long

EARLY = 10
EXPECTED = [str(number) for number in range(110)]
MIN = {"min.insync.replicas": 2, "replica.lag.time.max.ms": 30_000}
"""A slow disk makes no replica lag."""


def folder_of(path: Path, broker: int) -> Path:
    return path / f"broker-{broker}"


def copied(folder: Path) -> Path:
    copy = folder.with_name(folder.name + "-copy")
    shutil.rmtree(copy, ignore_errors=True)
    return Path(shutil.copytree(folder, copy))


def put_back(copy: Path) -> None:
    folder = copy.with_name(copy.name.removesuffix("-copy"))
    shutil.rmtree(folder)
    copy.rename(folder)


def with_records(path: Path) -> Cluster:
    cluster = kqueue.Cluster(brokers=3, path=path, settings=MIN).start()
    cluster.create_topic("orders", replicas={0: [0, 1, 2]})
    cluster[0].topics["orders"].produce_all(EXPECTED[:EARLY])
    cluster.wait_in_sync()
    return cluster


def produce_late(cluster: Cluster) -> None:
    cluster.wait_in_sync()
    leader = cluster.wait_leader("orders")
    cluster[leader].topics["orders"].produce_all(EXPECTED[EARLY:])
    cluster.wait_in_sync()


def assert_none_is_lost(cluster: Cluster) -> None:
    cluster.wait_in_sync()
    for broker in cluster.brokers:
        broker.assert_produced("orders", EXPECTED, within_s=30)


@pytest.mark.parametrize("how", corners(["stop", "kill"], "kill"))
def test_a_broker_that_starts_first_from_an_older_copy_loses_no_record(
    how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = with_records(tmp_path)
    try:
        getattr(cluster, how)(2)
        copy = copied(folder_of(tmp_path, 2))
        cluster.start(2)
        produce_late(cluster)
        cluster.kill(0, 1, 2)
        put_back(copy)
        with caplog.at_level(logging.WARNING, "kqueue.broker"):
            cluster[2].start()
            assert cluster.leader("orders") != 2
        assert sum("is older than its last life" in line for line in caplog.messages) == 1
        cluster[0].start()
        cluster[1].start()
        assert_none_is_lost(cluster)
        assert cluster.isr("orders") == [0, 1, 2]
    finally:
        cluster.stop()


@pytest.mark.parametrize("order", corners(["201", "012", "021"]))
@pytest.mark.parametrize("loss", corners(["older copy", "empty disk"], "older copy"))
def test_brokers_killed_with_unflushed_records_lead_rather_than_a_last_leader_that_is_outdated(
    order: str, loss: str, tmp_path: Path
) -> None:
    settings = {**MIN, "kqueue.flush": "kafka"}
    cluster = kqueue.Cluster(brokers=3, path=tmp_path, settings=settings).start()
    try:
        cluster.create_topic("orders", replicas={0: [2, 0, 1]})
        cluster[2].topics["orders"].produce_all(EXPECTED[:EARLY])
        cluster.wait_in_sync()
        cluster.kill(2)
        copy = copied(folder_of(tmp_path, 2))
        cluster.start(2)
        cluster.wait_in_sync()
        cluster.stop(0)
        assert cluster.wait_leader("orders") == 2
        cluster.start(0)
        produce_late(cluster)
        cluster.kill(0, 1, 2)
        if loss == "empty disk":
            shutil.rmtree(copy)
            copy.mkdir()
        put_back(copy)
        for broker in map(int, order):
            cluster[broker].start()
        assert_none_is_lost(cluster)
    finally:
        cluster.stop()


def test_a_last_leader_leads_where_all_folders_are_older_copies(tmp_path: Path) -> None:
    cluster = with_records(tmp_path)
    try:
        cluster.kill(0, 1, 2)
        copies = [copied(folder_of(tmp_path, broker)) for broker in range(3)]
        for broker in cluster.brokers:
            broker.start()
        produce_late(cluster)
        cluster.kill(0, 1, 2)
        for copy in copies:
            put_back(copy)
        for broker in cluster.brokers:
            broker.start()
        cluster.wait_in_sync()
        cluster[0].assert_produced("orders", EXPECTED[:EARLY], within_s=30)
    finally:
        cluster.stop()


def test_brokers_that_were_all_killed_lead_again_whichever_starts_first(tmp_path: Path) -> None:
    cluster = with_records(tmp_path)
    try:
        produce_late(cluster)
        for first in (2, 0, 1):
            cluster.kill(0, 1, 2)
            cluster[first].start()
            others = set(range(3)) - {first}
            while (leader := cluster.wait_leader("orders")) != first:
                assert leader in others, "the store names it until its session has timed out"
            for broker in cluster.brokers:
                broker.start()
            assert_none_is_lost(cluster)
    finally:
        cluster.stop()


def test_a_store_that_is_put_back_from_a_copy_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    cluster = with_records(tmp_path)
    cluster.stop()
    older = (tmp_path / STORE_FILE).read_bytes()
    cluster = kqueue.Cluster(brokers=3, path=tmp_path, settings=MIN).start()
    cluster.create_topic("later", replicas={0: [0, 1, 2]})
    produce_late(cluster)
    cluster.stop()
    newest = (tmp_path / STORE_FILE).read_bytes()
    (tmp_path / STORE_FILE).write_bytes(older)
    with pytest.raises(KqueueError, match="kqueue.cluster.store is older than the data of broker 0"):
        kqueue.Cluster(brokers=3, path=tmp_path, settings=MIN).start()
    assert (folder_of(tmp_path, 0) / "later-0").is_dir(), "it is no stray one"
    (tmp_path / STORE_FILE).write_bytes(newest)
    with kqueue.Cluster(brokers=3, path=tmp_path, settings=MIN) as cluster:
        assert_none_is_lost(cluster)


def test_store_and_folders_that_are_put_back_together_are_a_cluster(tmp_path: Path) -> None:
    cluster = with_records(tmp_path / "data")
    cluster.stop()
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    with kqueue.Cluster(brokers=3, path=tmp_path / "data", settings=MIN) as cluster:
        produce_late(cluster)
    with kqueue.Cluster(brokers=3, path=tmp_path / "copy", settings=MIN) as cluster:
        cluster.wait_in_sync()
        cluster[0].assert_produced("orders", EXPECTED[:EARLY])
        produce_late(cluster)
        assert_none_is_lost(cluster)


def test_a_folder_of_a_kqueue_without_marks_is_accepted_and_marked(tmp_path: Path) -> None:
    from kqueue.metadata.sqlite import SqliteStore

    cluster = with_records(tmp_path)
    produce_late(cluster)
    cluster.stop()
    store = SqliteStore(tmp_path / STORE_FILE)
    store.commit({}, {}, list(store.read("/folders/")))
    store.close()
    for broker in range(3):
        (folder_of(tmp_path, broker) / REGISTRATION_MARK).unlink()
    with kqueue.Cluster(brokers=3, path=tmp_path, settings=MIN) as cluster:
        assert_none_is_lost(cluster)
    assert all((folder_of(tmp_path, broker) / REGISTRATION_MARK).exists() for broker in range(3))
