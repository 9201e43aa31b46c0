"""One tree of errors for the whole house.

Three kinds, as the fault lies: the bytes are wrong (`CorruptData`), the caller is wrong
(`RequestRefused`), or what we stand on failed us (`StorageFailed`). A bug of our own is an
`assert`. A message says what was expected, what was found, and where. `kqueue.api.errors` holds the
one table from these classes to the protocol's codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class KqueueError(Exception):
    """Root of all errors that kqueue raises on purpose."""


# --- the bytes are wrong


class CorruptData(KqueueError):
    """Bytes that do not follow their format."""


class MalformedMessage(CorruptData):
    """A protocol message (or internal record) that can't be decoded: cut short, a lying length,
    bytes left over.
    """


class CorruptBatch(CorruptData):
    """A record batch whose length, magic, checksum, counts or records are wrong."""


class CorruptIndex(CorruptData):
    """An index, snapshot or checkpoint file that can't be what its log needs; always rebuildable."""


class DecompressedTooLarge(CorruptBatch):
    """The records of a batch come to more bytes than the caller allows."""


class RecordTooLarge(KqueueError):
    """A batch or record above the limit that the topic sets (`max.message.bytes`)."""


class RecordError(NamedTuple):
    """What is wrong with one record of a batch; `batch_index` counts from 0."""

    batch_index: int
    message: str


class InvalidRecord(KqueueError):
    """A well-formed batch that this topic refuses: no key on a compacted topic, a control batch
    from a client, ...

    `record_errors`: the records that it is about; empty: the batch as a whole.
    """

    def __init__(self, message: str, record_errors: Sequence[RecordError] = ()) -> None:
        super().__init__(message)
        self.record_errors = record_errors


class InvalidTimestamp(KqueueError):
    """A timestamp outside the bounds of the topic (`message.timestamp.*.max.ms`), or of the wrong
    type.

    `record_errors`: as those of `InvalidRecord`.
    """

    def __init__(self, message: str, record_errors: Sequence[RecordError] = ()) -> None:
        super().__init__(message)
        self.record_errors = record_errors


class UnsupportedCodec(KqueueError):
    """A compression type that is unknown, or not allowed at the request's version."""


# --- settings and plugins


class SettingError(KqueueError, ValueError):
    """A setting's name or value is refused; the message gives the nearest name or the valid range."""


class PluginError(KqueueError):
    """A plugin that can't be loaded, clashes with another, or broke its contract; the message names
    its distribution.

    `summary`: the message without `detail`, the plugin's own words, which stay in the broker's log:
    a stranger may not read them.
    """

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(f"{message}: {detail}" if detail else message)
        self.summary = message


# --- what we stand on failed


class StorageFailed(KqueueError):
    """A disk operation failed and the log is offline: it is never retried, restart after mending
    the disk (but see StorageUnavailable).

    `summary`: the message without `detail`, a plugin's own words, which stay in the broker's log: a
    stranger may not read them.
    """

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(f"{message}: {detail}" if detail else message)
        self.summary = message


class StorageUnavailable(StorageFailed):
    """Nothing was written and nothing is lost: no log goes offline, and the operation may be
    repeated later.
    """


class DiskFull(StorageUnavailable):
    """The disk, a quota or the limit on file sizes has no room, or what is left is reserved
    (`kqueue.disk.reserve.bytes`).

    Only for errors of writing: an fsync that fails for want of room has lost bytes, as any other
    that fails.
    """


class TooManyOpenFiles(StorageUnavailable):
    """The process or the system can open no more files (EMFILE, ENFILE), or kqueue's own bound on
    them is reached.

    No fault of a disk and nothing was written: no log or data folder goes offline, and the
    operation may be repeated.
    """


class FolderInUse(KqueueError):
    """Another broker holds the lock of a data folder."""


class FolderLost(StorageFailed):
    """A data folder stopped being ours while it was in use: another process locked it, or its path
    names another folder.
    """


class Conflict(KqueueError):
    """A metadata commit whose guard no longer held: somebody else changed the value first."""


class AnswerNotExpected(KqueueError):
    """An error that can't be told because the client awaits no answer (acks=0): its connection is
    closed instead.
    """


# --- the caller is wrong; each is one of Kafka's error codes


class RequestRefused(KqueueError):
    """A request that the broker understood and refuses; each subclass is one error of the protocol."""


class InvalidRequest(RequestRefused):
    """Fields that contradict each other or the protocol."""


class TooManyItems(InvalidRequest):
    """A message with more list entries than it may hold; `excess` is how many more, as far as it
    was read.
    """

    def __init__(self, message: str, excess: int) -> None:
        super().__init__(message)
        self.excess = excess


class UnsupportedVersion(RequestRefused):
    """The request needs what its version, or this broker, does not have."""


class OffsetOutOfRange(RequestRefused):
    """An offset below the log start or above the end."""


class UnknownTopicOrPartition(RequestRefused):
    """No such topic, or no such partition of it."""


class UnknownTopicId(RequestRefused):
    """No topic has this id."""


class InconsistentTopicId(RequestRefused):
    """The topic's id is not the one that the request names."""


class InvalidTopic(RequestRefused):
    """A name that can't be a topic's, or an internal topic where none is allowed."""


class TopicAlreadyExists(RequestRefused):
    """The name is taken."""


class TopicDeletionDisabled(RequestRefused):
    """`delete.topic.enable` is false."""


class InvalidPartitions(RequestRefused):
    """A number of partitions that can't be."""


class InvalidReplicationFactor(RequestRefused):
    """More replicas than brokers, or none."""


class InvalidReplicaAssignment(RequestRefused):
    """A manual assignment that names unknown or repeated brokers."""


class InvalidConfig(RequestRefused):
    """A topic setting is refused."""


class PolicyViolation(RequestRefused):
    """A limit of this broker stands against it."""


class FencedLeaderEpoch(RequestRefused):
    """The client's leader epoch is older than ours."""


class UnknownLeaderEpoch(RequestRefused):
    """The client's leader epoch is newer than ours."""


class NotLeader(RequestRefused):
    """This broker does not lead the partition."""


class InvalidRequiredAcks(RequestRefused):
    """acks is none of -1, 0, 1."""


class RequestTimedOut(RequestRefused):
    """The wait ended before what was waited for came."""


class OffsetNotAvailable(RequestRefused):
    """Records that were appended before the request are not visible to consumers yet; the client
    may ask again.
    """


class UnsupportedForMessageFormat(RequestRefused):
    """The request needs a newer message format than the log holds."""


class TransactionsNotServed(UnsupportedVersion):
    """A transactional id: this broker does not serve transactions. `transactional_id` is the
    client's own, "" if not known.
    """

    def __init__(self, transactional_id: str) -> None:
        super().__init__("transactions are not served yet")
        self.transactional_id = transactional_id


class OutOfOrderSequence(RequestRefused):
    """An idempotent producer's sequence leaves a gap."""


class InvalidProducerEpoch(RequestRefused):
    """A producer with an older epoch than the last seen."""


class UnknownProducerId(RequestRefused):
    """A sequence other than 0 from a producer that this partition does not know (any more)."""


class InvalidTransactionState(RequestRefused):
    """A batch or marker that does not fit its producer's transaction."""


class FetchSessionNotFound(RequestRefused):
    """The fetch session was evicted or never was."""


class InvalidFetchSessionEpoch(RequestRefused):
    """The fetch session expects another epoch."""


class FetchSessionTopicIdError(RequestRefused):
    """The fetch session was begun with topic names and goes on with ids, or the other way round."""


class InvalidGroupId(RequestRefused):
    """An empty group id where a group is needed."""


class GroupIdNotFound(RequestRefused):
    """No such group."""


class NonEmptyGroup(RequestRefused):
    """The group has members."""


class GroupSubscribedToTopic(RequestRefused):
    """Members of the group read the topic, so its offsets can't be deleted."""


class UnknownMember(RequestRefused):
    """The group has no such member."""


class MemberIdRequired(RequestRefused):
    """A new member has to join again with the id that the answer gives; see `member_id`."""

    def __init__(self, member_id: str) -> None:
        super().__init__(f"join again with the member id {member_id}")
        self.member_id = member_id


class FencedInstanceId(RequestRefused):
    """A static member was replaced by another with the same `group.instance.id`."""


class IllegalGeneration(RequestRefused):
    """The member speaks of another generation than the group's."""


class RebalanceInProgress(RequestRefused):
    """The group is rebalancing: join again."""


class InconsistentGroupProtocol(RequestRefused):
    """No protocol that all members share, or another protocol type."""


class InvalidSessionTimeout(RequestRefused):
    """Outside `group.min/max.session.timeout.ms`."""


class GroupMaxSizeReached(RequestRefused):
    """`group.max.size` members are there."""


class InvalidCommitOffsetSize(RequestRefused):
    """An offset can't be committed, because of the memory that all offsets take or because its
    record is too large.
    """


class OffsetMetadataTooLarge(RequestRefused):
    """Commit metadata above `offset.metadata.max.bytes`."""


class CoordinatorNotAvailable(RequestRefused):
    """The coordinator can't serve now; try again."""


class CoordinatorLoadInProgress(RequestRefused):
    """The coordinator is still reading its log; try again."""


# --- what we were told to send can't be said


class UnencodableMessage(KqueueError, ValueError):
    """A value that its field can't carry: a number out of range, a string too long, None where null
    can't be said.
    """


class NotCoordinator(RequestRefused):
    """The coordinator is another broker, or its log can't be written any more: look for it again."""


class ListenFailed(KqueueError):
    """An address on which the broker can't listen: it is taken, not ours, or not allowed."""


class JobCancelled(KqueueError):
    """Work in a process of its own was cut short because the broker stops; nobody needs its result
    any more.
    """


class JobFailed(KqueueError):
    """Work in a process of its own ended without a result: it could not be started there, or the
    process died.
    """


class ProcessDied(JobFailed):
    """The process of a job ended without a result: it was killed, or crashed. Another try may
    succeed.
    """


class ExtraNeeded(KqueueError):
    """Something needs a package that an extra of kqueue brings; the message says how to get it."""


class SnapshotRefused(KqueueError):
    """A folder that a snapshot can't be put into, or that no broker can begin with; the message
    says what is wrong with it.
    """


# --- a broker that we asked


# --- the pipeline on Spark
