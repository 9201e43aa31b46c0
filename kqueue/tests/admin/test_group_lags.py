from __future__ import annotations

import kqueue
from kqueue.admin.group_lags import GroupProgress, group_lags, with_lag
from kqueue.client import Client, TopicPartition


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


def test_a_log_end_that_is_unknown_makes_the_lag_unknown() -> None:
    one, two = TopicPartition("t", 0), TopicPartition("t", 1)
    progress = GroupProgress({one: 3, two: 9}, None)
    assert with_lag(progress, {one: 5, two: 7}).lag == 2, "an end below the offset counts as no lag"
    assert with_lag(progress, {one: 5}).lag is None
    assert with_lag(GroupProgress({}, None), {}).lag is None
