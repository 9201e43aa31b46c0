"""Nodes that belong to one user of ZooKeeper."""

from __future__ import annotations

import logging
import random
import time
from contextlib import closing

import pytest
from kazoo.client import KazooClient

from compat_tests.zookeeper.server import Server
from kqueue.base.errors import StorageFailed
from kqueue.metadata.zookeeper import ZookeeperStore

USER = ("kqueue", "long-secret")


def _paths(kazoo: KazooClient, path: str) -> list[str]:
    return [path, *(each for name in kazoo.get_children(path) for each in _paths(kazoo, f"{path}/{name}"))]


def test_all_nodes_are_of_one_user(address: str, shared_server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kqueue")
    with closing(ZookeeperStore(address, credentials=USER)) as store:
        session = store.register(1, "incarnation", 4000)
        store.commit({}, {"/small": b"x", "/large": random.Random(0).randbytes(1_000_000)}, ())
        term = store.campaign(session)
        assert term is not None
        kazoo = KazooClient(shared_server.address, auth_data=[("digest", ":".join(USER))])
        kazoo.start()
        try:
            chroot = address.removeprefix(shared_server.address)
            paths = _paths(kazoo, chroot)
            assert len(paths) >= 8
            for path in paths:
                acls, _ = kazoo.get_acls(path)
                assert [(acl.perms, acl.id.scheme, acl.id.id.partition(":")[0]) for acl in acls] == [
                    (31, "digest", "kqueue")
                ], path
        finally:
            kazoo.stop()
            kazoo.close()
    assert "long-secret" not in caplog.text
    assert "long-secret" not in repr(vars(store))


@pytest.mark.parametrize("credentials", [None, ("kqueue", "guessed"), ("other", "long-secret")])
def test_others_are_refused_with_the_settings_to_check(address: str, credentials: tuple[str, str] | None) -> None:
    ZookeeperStore(address, credentials=USER).close()
    began_s = time.monotonic()
    with pytest.raises(StorageFailed, match=r"check kqueue\.zookeeper\.user") as raised:
        ZookeeperStore(address, credentials=credentials).close()
    assert time.monotonic() - began_s < 9
    assert "guessed" not in str(raised.value)
    with closing(ZookeeperStore(address, credentials=USER)) as store:
        store.commit({}, {"/still": b"here"}, ())
