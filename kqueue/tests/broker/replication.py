"""One partition with replicas on several brokers, whose followers fetch when the test says so."""

from __future__ import annotations

from kqueue.broker.replicas.partition import Partition
from kqueue.broker.replicas.partition_host import PartitionRead
from kqueue.broker.topics.topics import NewTopic
from kqueue.log.formats.leader_epochs import EpochEndOffset
from kqueue.replication.leader_replica import ReplicaFetch
from kqueue.tests.broker.members import Members

PLENTY = 1 << 20
KAFKA = {"kqueue.flush": "kafka"}
MEMORY = {"kqueue.storage": "memory"}


def started(settings: dict[str, object] | None = None, *, min_isr: int = 1, count: int = 3) -> Members:
    """Brokers with a partition that broker 1 leads in epoch 0, and all others follow."""
    members = Members(count, settings)
    configs = {"min.insync.replicas": str(min_isr)}
    new = NewTopic("t", assignments={0: list(range(1, count + 1))}, configs=configs)
    members.result(members[1].broker.topics.create(new))
    return members


def fetch_of(follower: Partition, node: int, broker_epoch: int = 1) -> ReplicaFetch:
    log = follower.log
    return ReplicaFetch(node, broker_epoch, follower.leader_epoch, log.end_offset, log.epochs.latest)


def fetch(members: Members, node: int, leader: int = 1, max_bytes: int = PLENTY) -> PartitionRead | EpochEndOffset:
    """Let a follower fetch once, and do what the answer says."""
    follower = members.partition(node)
    flushed: list[bool] = []
    follower.after_flush(follower.log_end_offset, lambda: flushed.append(True))
    members.settle()
    assert flushed, "rule 21: a follower has flushed before it fetches"
    answer = members.partition(leader).lead().fetch(fetch_of(follower, node), max_bytes)
    epoch = follower.leader_epoch
    if isinstance(answer, EpochEndOffset):
        own_end = follower.epoch_end(answer.epoch).end_offset
        ended: list[object] = []
        follower.follow(epoch).truncate(min(answer.end_offset, own_end), ended.append)
        members.settle()
        assert ended == [None]
        return answer
    region = answer.fetched.region
    if region is not None:
        follower.follow(epoch).append(memoryview(region.read()))
    follower.follow(epoch).raise_high_watermark(answer.high_watermark)
    follower.follow(epoch).raise_start(answer.log_start_offset)
    members.settle()
    return answer


def replicate(members: Members, *nodes: int, leader: int = 1) -> None:
    """Let followers fetch until they and the leader know that all is committed."""
    for _ in range(3):
        for node in nodes:
            fetch(members, node, leader)


def log_bytes(partition: Partition) -> bytes:
    return b"".join(segment.log.read_at(0, segment.size) for segment in partition.log.segments)


def elect(members: Members, leader: int, *isr: int) -> None:
    members.write(lambda old: old._replace(leader=leader, isr=isr or old.isr, leader_epoch=old.leader_epoch + 1))
