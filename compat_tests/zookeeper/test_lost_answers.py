"""Connections that are cut at a commit: it happens once, and its caller sees that it did."""

from __future__ import annotations

from contextlib import closing

from compat_tests.lost_answers import commit_once_each, register_once_each
from compat_tests.zookeeper.proxy import Proxy
from compat_tests.zookeeper.server import Server
from kqueue.metadata.zookeeper import ZookeeperStore


def test_no_commit_is_lost_or_doubled_by_cut_connections(shared_server: Server) -> None:
    with Proxy(shared_server.port) as proxy:
        chroot = "/test/lost-answers"
        with (
            closing(ZookeeperStore(f"{proxy.address}{chroot}", timeout_s=20)) as one,
            closing(ZookeeperStore(f"{shared_server.address}{chroot}")) as two,
        ):
            commit_once_each(one, two, proxy.fates, commits=100, conflict_every=25, cut_min=50)


def test_registrations_and_campaigns_survive_cut_connections(shared_server: Server) -> None:
    """The epochs rise, and there is one session and one term, whatever is cut."""
    with Proxy(shared_server.port) as proxy:
        chroot = "/test/lost-sessions"
        with (
            closing(ZookeeperStore(f"{proxy.address}{chroot}", timeout_s=20)) as one,
            closing(ZookeeperStore(f"{shared_server.address}{chroot}")) as two,
        ):
            epochs, terms = register_once_each(one, two, proxy.fates)
            assert epochs == sorted(set(epochs))
            assert terms == sorted(set(terms))
