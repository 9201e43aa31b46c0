from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

import kqueue
from kqueue.tests.served_cluster import bootstrap, served_cluster

Kq = Callable[..., Result]


def test_wait_ends_once_brokers_serve_and_replicas_are_in_sync(kq: Kq, tmp_path: Path) -> None:
    settings = {"broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 200}
    with served_cluster(tmp_path, 3, settings) as brokers:
        where = bootstrap(brokers)
        assert kq("topics", "create", "t", "-p", "4", "-r", "3", "-b", where).exit_code == 0
        whole = kq("cluster", "wait", "--brokers", "3", "-b", where)
        assert whole.stdout == "brokers that serve: 3; all replicas of 4 partitions are in sync.\n"

        more = kq("cluster", "wait", "--brokers", "4", "--timeout", "0", "-b", where)
        assert (more.exit_code, more.stderr) == (1, "Error: after 0 s: brokers that serve: 3 of 4\n")

        brokers[2].stop()
        less = kq("cluster", "wait", "--timeout", "0.3", "-b", where)
        assert less.exit_code == 1
        assert "brokers that serve: 2 of 3; fenced: 3; partitions that lack replicas in sync: 4 of 4" in less.stderr
        later = threading.Timer(0.5, brokers[2].start)
        later.start()
        try:
            assert kq("cluster", "wait", "-b", where).stdout == whole.stdout
        finally:
            later.join()


def test_a_broker_that_was_killed_is_missed_before_its_session_has_ended(kq: Kq) -> None:
    with kqueue.Cluster(3) as cluster:
        cluster.create_topic("t", 1, replication_factor=3)
        cluster.wait_in_sync()
        cluster.kill(1)
        less = kq("cluster", "wait", "--timeout", "0", "-b", cluster.bootstrap)
    assert (less.exit_code, less.stderr) == (1, "Error: after 0 s: not reachable: 1\n")


def test_without_a_broker_it_says_so(kq: Kq) -> None:
    result = kq("cluster", "wait", "--timeout", "0.3", "-b", "127.0.0.1:1")
    assert result.exit_code == 1
    assert "after 0.3 s: " in result.stderr
