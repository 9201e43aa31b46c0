"""Floor 7: a small blocking client, for whoever takes and gives whole record batches as bytes.

    with Client("localhost:9092") as client:
        place = TopicPartition("orders", 0)
        start = client.offsets({place: EARLIEST})[place].offset
        fetched = client.fetch({place: start})[place]
        for position, header in iter_batches(fetched.records): ...

It picks the highest version of each request that both sides know (Kafka 2.8 to 4.3, and kqueue),
goes where the leaders are, asks again where that helps (`remedies`), and is done, one way or the
other, when the time that it was given is over. It knows no groups with members, no TLS and no SASL.
"""

from kqueue.client.calls.configs import ConfigEntry
from kqueue.client.calls.create_topics import NewTopic
from kqueue.client.calls.fetch import AbortedTxn, FetchedRecords
from kqueue.client.calls.group_offsets import OffsetAndMetadata
from kqueue.client.calls.init_producer_id import ProducerIdAndEpoch
from kqueue.client.calls.list_groups import GroupListing
from kqueue.client.calls.list_offsets import EARLIEST, LATEST, MAX_TIMESTAMP, OffsetAndTimestamp
from kqueue.client.calls.produce import ProduceResult
from kqueue.client.client import Client
from kqueue.client.metadata import ClusterMetadata, Node, PartitionMetadata, TopicMetadata
from kqueue.client.options import ClientOptions
from kqueue.client.topic_partition import TopicPartition

__all__ = [
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "AbortedTxn",
    "Client",
    "ClientOptions",
    "ClusterMetadata",
    "ConfigEntry",
    "FetchedRecords",
    "GroupListing",
    "NewTopic",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionMetadata",
    "ProduceResult",
    "ProducerIdAndEpoch",
    "TopicMetadata",
    "TopicPartition",
]
