from __future__ import annotations

import pytest
from kafka import KafkaConsumer

import kqueue


def test_groups_of_a_cluster_are_shown_whoever_coordinates_them() -> None:
    with kqueue.Cluster(brokers=3) as cluster:
        cluster.create_topic("orders", replicas={0: [0]})  # so that not all coordinators have a replica
        cluster.load_records([{"value": str(number)} for number in range(4)], topic="orders")
        assert list(cluster.groups) == []
        for name in ("bills", "mail", "stock"):
            with KafkaConsumer(
                "orders", bootstrap_servers=cluster.bootstrap, group_id=name, auto_offset_reset="earliest"
            ) as consumer:
                next(consumer)
                consumer.commit()
        assert list(cluster.groups) == ["bills", "mail", "stock"]
        for name, group in cluster.groups.items():
            assert (group.id, group.offsets, group.lag) == (name, {"orders": {0: 1}}, {"orders": {0: 3}})
        coordinators = [[broker.id for broker in cluster if name in broker.groups] for name in cluster.groups]
        assert all(len(ids) == 1 for ids in coordinators)
        assert "mails" not in cluster.groups
        with pytest.raises(KeyError, match="there is no group 'mials'; did you mean 'mail'"):
            cluster.groups["mials"]
        other = next(broker for broker in cluster if "mail" not in broker.groups)
        with pytest.raises(KeyError, match="not its coordinator; look at cluster.groups"):
            other.groups["mail"]
        with pytest.raises(AssertionError, match="not its coordinator"):
            other.assert_consumed("orders", group="mail")
