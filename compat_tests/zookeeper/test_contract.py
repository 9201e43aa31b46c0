"""The public checks of cluster stores, on ZooKeeper."""

from __future__ import annotations

import hashlib
from functools import partial

from compat_tests.zookeeper.server import Server
from kqueue.metadata.zookeeper import ZookeeperStore
from kqueue.testing.cluster_store_checks import check_cluster_store


def open_store(address: str, folder: str) -> ZookeeperStore:
    """A store in a chroot that stands for the folder."""
    return ZookeeperStore(f"{address}/{hashlib.sha1(folder.encode()).hexdigest()}", timeout_s=10)


def test_meets_the_contract_of_cluster_stores(shared_server: Server) -> None:
    check_cluster_store(partial(open_store, shared_server.address), session_timeout_ms=1000)
