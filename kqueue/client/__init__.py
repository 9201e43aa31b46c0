"""A small blocking client that reads and writes whole record batches as bytes.

    with Client("localhost:9092") as client:
        partition = TopicPartition("orders", 0)
        start = client.offsets({partition: EARLIEST})[partition].offset
        fetched = client.fetch({partition: start})[partition]
        for position, header in iter_batches(fetched.records): ...

It uses the highest version of each request that both sides support (Kafka 2.8 to 4.3, and kqueue),
sends partition requests to the leaders, and retries errors as `retry_policy` says. Every call ends,
with a result or an error, before its timeout. It joins no consumer groups; `Client.membership` has
the requests of a classic group's member. TLS and SASL: `ClientOptions.security`.
"""

from kqueue.base.config_resources import ConfigChange, ConfigOperation, ResourceType
from kqueue.client.calls.classic_membership import GroupProtocol, JoinedGroup
from kqueue.client.calls.create_topics import NewTopic
from kqueue.client.calls.describe_classic_group import ClassicGroup, ClassicMember
from kqueue.client.calls.describe_cluster import ClusterDescription
from kqueue.client.calls.describe_groups import GroupDescription, GroupMember, TaskId
from kqueue.client.calls.describe_log_dirs import LogDir
from kqueue.client.calls.elect_leaders import ElectionType
from kqueue.client.calls.fetch import AbortedTxn, FetchedRecords
from kqueue.client.calls.group_offsets import OffsetAndMetadata
from kqueue.client.calls.init_producer_id import ProducerIdAndEpoch
from kqueue.client.calls.list_groups import GroupListing
from kqueue.client.calls.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    OffsetAndTimestamp,
)
from kqueue.client.calls.produce import ProduceResult
from kqueue.client.calls.producers import AbortMarker, ProducerState
from kqueue.client.calls.reassignments import Reassignment, Refusal
from kqueue.client.calls.resource_configs import SettingRow
from kqueue.client.calls.scram_users import SaltedPassword
from kqueue.client.calls.share_group_offsets import ShareOffset
from kqueue.client.calls.transactions import TransactionalProducer, TransactionDescription, TransactionListing
from kqueue.client.client import Client
from kqueue.client.metadata import BrokerEndpoint, ClusterMetadata, PartitionMetadata, TopicMetadata
from kqueue.client.options import ClientOptions
from kqueue.client.topic_partition import TopicPartition

__all__ = [
    "EARLIEST",
    "EARLIEST_LOCAL",
    "LATEST",
    "LATEST_TIERED",
    "MAX_TIMESTAMP",
    "AbortMarker",
    "AbortedTxn",
    "BrokerEndpoint",
    "ClassicGroup",
    "ClassicMember",
    "Client",
    "ClientOptions",
    "ClusterDescription",
    "ClusterMetadata",
    "ConfigChange",
    "ConfigOperation",
    "ElectionType",
    "FetchedRecords",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupProtocol",
    "JoinedGroup",
    "LogDir",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionMetadata",
    "ProduceResult",
    "ProducerIdAndEpoch",
    "ProducerState",
    "Reassignment",
    "Refusal",
    "ResourceType",
    "SaltedPassword",
    "SettingRow",
    "ShareOffset",
    "TaskId",
    "TopicMetadata",
    "TopicPartition",
    "TransactionDescription",
    "TransactionListing",
    "TransactionalProducer",
]
