from __future__ import annotations

import kqueue
from kqueue.admin.group_lags import group_lags
from kqueue.client import Client


def test_the_lag_is_the_sum_over_partitions_that_exist() -> None:
    with kqueue.Broker() as broker:
        broker.create_topic("orders", 2)
        broker.create_topic("gone", 1)
        broker.topics["orders"].produce_all(["a", "b", "c"], partition=0)
        broker.topics["orders"].produce_all(["d"], partition=1)
        with Client(broker.bootstrap) as client:
            client.commit("billing", {("orders", 0): 1, ("orders", 1): 0})
            client.commit("done", {("orders", 0): 3})
            lags = group_lags(client, client.groups().values())
            assert lags == {"billing": 3, "done": 0}
            assert group_lags(client, []) == {}
