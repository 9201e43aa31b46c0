from __future__ import annotations

import json
from collections.abc import Callable

from click.testing import Result

import kqueue

Kq = Callable[..., Result]


def test_the_state_of_a_broker(kq: Kq) -> None:
    with kqueue.Broker(node_id=7) as broker:
        broker.create_topic("a", 2)
        broker.create_topic("b", min_insync_replicas=2)
        lines = kq("cluster", "describe", "-b", broker.bootstrap).stdout.splitlines()
        assert lines[0] == f"Cluster {broker._server.broker.identity.cluster_id}, controller 7"
        counts = dict(line.rsplit(maxsplit=1) for line in lines[3:])
        assert counts == {
            "brokers": "1",
            "fenced brokers": "0",
            "topics": "2",
            "partitions": "3",
            "without a leader": "0",
            "under-replicated": "0",
            "below min.insync.replicas": "1",
            "at min.insync.replicas": "2",
            "not led by their preferred leader": "0",
            "being moved": "0",
        }
        state = json.loads(kq("cluster", "describe", "-b", broker.bootstrap, "-o", "json").stdout)
        assert (state["controller"], state["under_min_isr"], state["at_min_isr"]) == (7, 1, 2)
        head, row = kq("cluster", "brokers", "-b", broker.bootstrap).stdout.splitlines()
        assert head.split() == [
            "ID",
            "HOST",
            "PORT",
            "RACK",
            "STATE",
            "CONTROLLER",
            "LEADS",
            "REPLICAS",
            "OUT",
            "OF",
            "SYNC",
        ]
        assert row.split() == ["7", "127.0.0.1", str(broker.port), "-", "unfenced", "yes", "3", "3", "0"]
        (shown,) = json.loads(kq("cluster", "brokers", "-b", broker.bootstrap, "-o", "json").stdout)
        assert (shown["id"], shown["state"], shown["leads"], shown["preferred"]) == (7, "unfenced", 3, 3)
