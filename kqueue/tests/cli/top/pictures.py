"""Pictures for tests of the screen."""

from __future__ import annotations

from dataclasses import replace

from kqueue.admin.cluster_state import BrokerLoad
from kqueue.admin.group_lags import GroupProgress
from kqueue.admin.log_dirs import TopicSize
from kqueue.admin.rates import History, Sample
from kqueue.admin.request_times import ApiTimes
from kqueue.admin.snapshot import FENCED, UP, BrokerState, Snapshot
from kqueue.cli.top.picture import Picture
from kqueue.client import (
    BrokerEndpoint,
    ClusterMetadata,
    GroupListing,
    LogDir,
    PartitionMetadata,
    TopicMetadata,
    TopicPartition,
)

EVIL = "evil\x1b[31m\nname\u202e"
COUNTS = {"partitions": 4, "unavailable": 0, "under_replicated": 1, "reassigning": 0}
SAMPLES = [
    Sample(
        time_s,
        {
            TopicPartition("orders", 0): 100 * time_s,
            TopicPartition("clicks", 0): 7 * time_s,
            TopicPartition(EVIL, 0): 0,
        },
        {},
        {"billing": GroupProgress({}, 0), "mailer": GroupProgress({}, 50 - 10 * time_s), EVIL: GroupProgress({}, None)},
    )
    for time_s in range(3)
]


def picture(*, topics: int = 0) -> Picture:
    """Return a picture of a cluster of two brokers.

    Args:
        topics: how many further topics it has.
    """
    history = History()
    for sample in SAMPLES:
        history.add(sample)
    names = ["orders", "clicks", EVIL, "__consumer_offsets", *(f"topic-{index:03}" for index in range(topics))]
    metadata = ClusterMetadata(
        {1: BrokerEndpoint(1, "one.example", 9092, "r1")},
        {name: TopicMetadata(name, bytes(16), {0: PartitionMetadata(1)}, name.startswith("__")) for name in names},
        "the-cluster",
        1,
    )
    snapshot = Snapshot(
        SAMPLES[-1],
        metadata,
        [
            BrokerState(1, "one.example", 9092, "r1", UP, True, BrokerLoad(4, 4, 4, 0)),
            BrokerState(2, EVIL, 9092, None, FENCED, False, BrokerLoad(0, 0, 1, 1)),
        ],
        COUNTS,
        {"orders": TopicSize(2_500_000, 5_000_000)},
        {
            1: [
                LogDir("/data", 0, {TopicPartition("orders", 0): 2_500_000}, {}, 100_000, 4_000),
                LogDir("/lost", 56, {}, {}),
            ]
        },
        {name: GroupListing(name, "consumer", "Stable", "classic") for name in ("billing", "mailer", EVIL)},
    )
    return Picture(
        "one.example:9092", snapshot, history.topics(), history.groups(), history.total(), history.total_records(),
        history=history,
    )  # fmt: skip


def with_requests() -> Picture:
    """Return a picture with the requests of one broker."""
    rows = [
        ApiTimes("1", "Fetch", 1500.0, 0.0002, 0.0009, 0.4, 0.5),
        ApiTimes("1", "Produce", 0.25, 0.06, 0.2, None, None),
        ApiTimes("1", "Metadata", None, None, None, None, None),
    ]
    return replace(picture(), requests=rows)
