from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import Result

import kqueue

Kq = Callable[..., Result]


def test_a_cluster_is_shown_with_its_brokers_and_apis(kq: Kq) -> None:
    with kqueue.Broker(node_id=7) as broker:
        lines = kq("cluster", "info", "-b", broker.bootstrap).stdout.splitlines()
        assert lines[0] == f"Cluster {broker._server.broker.cluster_id}"
        assert lines[2].split() == ["BROKER", "HOST", "PORT", "RACK", "KAFKA", "CONTROLLER"]
        assert lines[3].split() == ["7", "127.0.0.1", str(broker.port), "-", "4.3", "yes"]
        assert ["Produce", "0", "0", "to", "13"] in [line.split() for line in lines[5:]]
        assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_older_brokers_are_shown_as_what_they_are(kq: Kq, version: str) -> None:
    with kqueue.Broker(as_version=version) as broker:
        result = kq("cluster", "info", "-b", broker.bootstrap)
        assert result.stdout.splitlines()[3].split()[4] == version
