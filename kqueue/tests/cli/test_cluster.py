from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

import kqueue
from kqueue.api.api_table import api_rows

Kq = Callable[..., Result]


def test_a_cluster_is_shown_with_its_brokers_and_apis(kq: Kq) -> None:
    with kqueue.Broker(node_id=7) as broker:
        lines = kq("cluster", "info", "-b", broker.bootstrap).stdout.splitlines()
        assert lines[0] == f"Cluster {broker._server.broker.identity.cluster_id}"
        assert lines[2].split() == ["BROKER", "HOST", "PORT", "RACK", "KAFKA", "CONTROLLER"]
        assert lines[3].split() == ["7", "127.0.0.1", str(broker.port), "-", "4.3", "yes"]
        rows = [line.split() for line in lines[5:]]
        assert ["Produce", "0", "0", "to", "13"] in rows
        assert ["transaction.version", "2", "0", "to", "2"] in rows
        assert ["7", "0", "3", "7", "-"] in rows, "the quorum: leader, epoch, end, voters, observers"
        assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_older_brokers_are_shown_as_what_they_are(kq: Kq, version: str) -> None:
    with kqueue.Broker(as_version=version) as broker:
        result = kq("cluster", "info", "-b", broker.bootstrap)
        assert result.stdout.splitlines()[3].split()[4] == version


def test_features_and_quorum_as_json(kq: Kq) -> None:
    with kqueue.Broker(node_id=7) as broker:
        shown = json.loads(kq("cluster", "info", "-b", broker.bootstrap, "-o", "json").stdout)
    assert {"name": "metadata.version", "level": 30, "supported_min": 7, "supported_max": 30} in shown["features"]
    assert (shown["quorum"]["leader"], shown["quorum"]["voters"], shown["quorum"]["observers"]) == (7, [7], [])


def test_the_apis_are_asked_of_the_broker(kq: Kq) -> None:
    with kqueue.Broker(as_version="2.8") as broker:
        rows = json.loads(kq("cluster", "apis", "-b", broker.bootstrap, "-o", "json").stdout)
        shown = [line.split() for line in kq("cluster", "apis", "-b", broker.bootstrap).stdout.splitlines()]
    served = {row["name"]: row["served"] for row in rows}
    assert (served["Produce"], served["ConsumerGroupHeartbeat"]) == ([0, 9], None)
    assert shown[0][:3] == ["Key", "API", "Broker"]
    assert ["0", "Produce", "0-9", "0-13"] in shown


def test_the_apis_offline_are_those_of_the_code(kq: Kq) -> None:
    rows = json.loads(kq("cluster", "apis", "--offline", "-o", "json").stdout)
    assert [tuple(row.values()) for row in rows] == [
        (row.key, row.name, row.served and [*row.served], row.kafka and [*row.kafka], row.reason) for row in api_rows()
    ]
    shown = [line.split() for line in kq("cluster", "apis", "--offline").stdout.splitlines()]
    assert shown[0][:3] == ["Key", "API", "kqueue"]
    assert ["0", "Produce", "0-13", "0-13"] in shown
    assert ["80", "AddRaftVoter", "-", "0-1", "between", "brokers", "and", "controllers"] in shown
