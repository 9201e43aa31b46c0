from __future__ import annotations

from pathlib import Path

import pytest

from kqueue.base.errors import SettingError, StorageFailed
from kqueue.metadata.sqlite import FILE_NAME, SqliteStore
from kqueue.replication.registrations import PartitionRegistration, TopicRegistration
from kqueue.supervisor.former_workers import check_former_workers
from kqueue.supervisor.worker_plan import plan_workers
from kqueue.tests.supervisor.test_worker_plan import given


def test_workers_of_a_former_run_that_hold_partitions_must_start(tmp_path: Path) -> None:
    def check(count: int) -> None:
        check_former_workers(plan_workers(given(log_dirs=tmp_path), count))

    check(1)
    assert list(tmp_path.iterdir()) == []
    partitions = tuple(PartitionRegistration((node,), (node,), node) for node in (1, 3, 3))
    store = SqliteStore(tmp_path / FILE_NAME)
    store.commit({}, {"/topics/orders": TopicRegistration(bytes(16), {}, partitions).to_bytes()}, ())
    store.commit({}, {"/topics/old": TopicRegistration(bytes(16), {}, partitions).to_number_bytes()}, ())
    store.close()
    check(3)
    words = (
        r"worker 2 \(node 3\) of a former run has 2 partitions \(orders-1, ...\): start with --workers 3; .*reassign"
    )
    with pytest.raises(SettingError, match=words):
        check(2)


def test_with_another_store_the_folders_tell(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]

    def check(count: int) -> None:
        store = "zookeeper:zk:2181"
        check_former_workers(
            plan_workers(given(log_dirs=",".join(map(str, folders)), kqueue_cluster_store=store), count)
        )

    check(1)
    assert list(tmp_path.iterdir()) == []
    (folders[0] / "orders-0").mkdir(parents=True)  # worker 0's
    (folders[0] / "workers" / "3" / "orders-1.0123456789abcdef0123456789abcdef-delete").mkdir(parents=True)
    (folders[0] / "workers" / "notes" / "orders-1").mkdir(parents=True)
    check(1)
    (folders[1] / "workers" / "2" / "orders-1").mkdir(parents=True)
    check(3)
    with pytest.raises(SettingError, match=r"worker 2 \(node 3\) .* has 1 partition \(orders-1, ...\): start with"):
        check(2)


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "workers").symlink_to("workers")
    with pytest.raises(StorageFailed, match="workers can't be read: "):
        check_former_workers(plan_workers(given(log_dirs=tmp_path, kqueue_cluster_store="zookeeper:zk:2181"), 1))
