from __future__ import annotations

import logging

import pytest

import kqueue
from kqueue.base.errors import InvalidConfig
from kqueue.broker.configs.dynamic_configs import IneffectiveSettings
from kqueue.broker.metadata.brokers import ClusterBrokers
from kqueue.testing.simulation import CATALOG, Simulation


def test_a_topics_setting_without_effect_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    with kqueue.Broker() as broker:
        broker.create_topic("plain", min_insync_replicas=1)
        for number in range(3):
            broker.create_topic(f"t{number}", min_insync_replicas=2, preallocate=True)
        with pytest.raises(InvalidConfig, match="tiered storage is disabled at this broker"):
            broker.create_topic("tiered", remote_storage_enable=True)
    warned = [
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.WARNING and "no effect" in record.getMessage()
    ]
    assert len(warned) == 2
    assert warned[0] == "topic t0: min.insync.replicas has no effect on a single broker"
    assert warned[1].startswith("topic t0: preallocate has no effect: ")


def test_members_of_a_cluster_have_replicas_to_set(caplog: pytest.LogCaptureFixture) -> None:
    topic = Simulation().topic("t", min_insync_replicas="2", preallocate="true")
    caplog.clear()
    IneffectiveSettings(CATALOG, ClusterBrokers(1)).warn_of(topic)
    assert [message.partition(":")[2][:28] for message in caplog.messages] == [" preallocate has no effect: "]
