"""Errors that several layers raise; a package's own errors are in its `errors` module.

Three kinds: the bytes are wrong (`CorruptData`), the request is wrong (`RequestRefused`), or a
resource failed (`StorageFailed`). A bug is an AssertionError. A message says what was expected,
what was found, and where. `kqueue.api.errors` maps these classes to the protocol's error codes.
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
    """A protocol message, or internal record, that can't be decoded: truncated, or too long."""


class CorruptBatch(CorruptData):
    """A record batch whose length, magic, checksum, counts or records are wrong."""


class CorruptIndex(CorruptData):
    """An index, snapshot or checkpoint file that contradicts its log; can always be rebuilt."""


class DecompressedTooLarge(CorruptBatch):
    """The records of a batch decompress to more bytes than allowed."""


class RecordTooLarge(KqueueError):
    """A batch or record above the limit that the topic sets (`max.message.bytes`)."""


class RecordError(NamedTuple):
    """The fault of one record of a batch; `batch_index` counts from 0."""

    batch_index: int
    message: str


class InvalidRecord(KqueueError):
    """A well-formed batch that this topic refuses: no key on a compacted topic, a control batch
    from a client, ...

    `record_errors`: the rejected records; empty: the whole batch.
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
    """An unknown setting, or an invalid value; the message gives the nearest name or the valid
    range.
    """


class PluginError(KqueueError):
    """A plugin that can't be loaded, clashes with another, or broke its contract; the message names
    its distribution.

    `summary`: the message without `detail`, the plugin's own message, which clients must not see;
    only the broker's log has it.
    """

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(f"{message}: {detail}" if detail else message)
        self.summary = message


# --- a resource failed


class StorageFailed(KqueueError):
    """A disk operation failed and the log is offline. It is never retried: repair the disk, then
    restart (but see StorageUnavailable).

    `summary`: the message without `detail`, a plugin's own message, which clients must not see;
    only the broker's log has it.
    """

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(f"{message}: {detail}" if detail else message)
        self.summary = message


class StorageUnavailable(StorageFailed):
    """Nothing was written or lost: no log goes offline, and the operation may be retried."""


class DiskFull(StorageUnavailable):
    """The disk, a quota or the file size limit is full, or the rest is reserved
    (`kqueue.disk.reserve.bytes`).

    Only for failed writes. An fsync that fails, for lack of space too, has lost bytes.
    """


class TooManyOpenFiles(StorageUnavailable):
    """The process or the system can't open more files (EMFILE, ENFILE, or kqueue's own limit)."""


class FolderInUse(KqueueError):
    """Another broker holds the lock of a data folder."""


class FolderLost(StorageFailed):
    """A data folder in use was locked by another process, or its path names another folder now."""


class Conflict(KqueueError):
    """A metadata commit whose guard does not hold: the value was changed in between."""


class SessionLost(KqueueError):
    """The session, or the controller term, behind a call has ended: nothing was changed."""


class NodeIdInUse(KqueueError):
    """A live session has the same node id. `may_have_ended`: its process; a timeout will tell."""

    may_have_ended = False


class AnswerNotExpected(KqueueError):
    """An error of a request without a response (acks=0): the connection is closed instead."""


# --- the request is wrong; each class is one of Kafka's error codes


class RequestRefused(KqueueError):
    """A request that the broker refuses; each subclass is one error of the protocol."""


class InvalidRequest(RequestRefused):
    """Fields that contradict each other or the protocol."""


class TooManyItems(InvalidRequest):
    """A message with too many list entries; `excess`: how many too many, as far as read."""

    def __init__(self, message: str, excess: int) -> None:
        super().__init__(message)
        self.excess = excess


class UnsupportedVersion(RequestRefused):
    """The request needs what its version, or this broker, does not have."""


class OffsetOutOfRange(RequestRefused):
    """An offset below the log start or above the end."""


class OffsetMovedToTieredStorage(RequestRefused):
    """An offset at or above the log start whose records only the remote tier has."""


class UnknownTopicOrPartition(RequestRefused):
    """No such topic, or no such partition of it."""


class LogDirNotFound(RequestRefused):
    """The path is none of the broker's data folders."""


class ReplicaNotAvailable(RequestRefused):
    """The replica can't be used here and now."""


class UnknownTopicId(RequestRefused):
    """No topic has this id."""


class InconsistentTopicId(RequestRefused):
    """The topic's id is not the one that the request names."""


class InvalidTopic(RequestRefused):
    """A name that can't be a topic's, or an internal topic where none is allowed."""


class TopicAlreadyExists(RequestRefused):
    """A topic of this name exists."""


class TopicDeletionDisabled(RequestRefused):
    """`delete.topic.enable` is false."""


class InvalidPartitions(RequestRefused):
    """An invalid number of partitions."""


class InvalidReplicationFactor(RequestRefused):
    """More replicas than brokers, or none."""


class InvalidReplicaAssignment(RequestRefused):
    """A manual assignment that names unknown or repeated brokers."""


class InvalidConfig(RequestRefused):
    """An invalid topic setting."""


class PolicyViolation(RequestRefused):
    """A limit of this broker forbids it."""


class InvalidUpdateVersion(RequestRefused):
    """A feature level that this broker does not support, or can't go to from the current one."""


class ThrottlingQuotaExceeded(RequestRefused):
    """The client sends such requests more often than it may."""


class UnknownSubscriptionId(RequestRefused):
    """The client's metrics subscription has changed: get the new one."""


class TelemetryTooLarge(RequestRefused):
    """A push of metrics above `telemetry.max.bytes`."""


class FencedLeaderEpoch(RequestRefused):
    """The client's leader epoch is older than the broker's."""


class UnknownLeaderEpoch(RequestRefused):
    """The client's leader epoch is newer than the broker's."""


class NotLeader(RequestRefused):
    """This broker does not lead the partition."""


class LogRecovering(NotLeader):
    """The partition's log is being recovered after a crash; retry."""


class InvalidRequiredAcks(RequestRefused):
    """acks is none of -1, 0, 1."""


class RequestTimedOut(RequestRefused):
    """The timeout of the request passed first."""


class NotEnoughReplicas(RequestRefused):
    """The records can't be appended now; producers retry without reading metadata again."""


class OffsetNotAvailable(RequestRefused):
    """Records appended before the request are not visible to consumers yet; clients retry."""


class UnsupportedForMessageFormat(RequestRefused):
    """The request needs a newer message format than the log holds."""


class OutOfOrderSequence(RequestRefused):
    """An idempotent producer's sequence leaves a gap."""


class InvalidProducerEpoch(RequestRefused):
    """A producer with an older epoch than the last seen."""


class UnknownProducerId(RequestRefused):
    """A sequence other than 0 from a producer without state in this partition."""


class InvalidTransactionState(RequestRefused):
    """A batch, marker or request that does not fit its producer's transaction."""


class TransactionalIdAuthorizationFailed(RequestRefused):
    """Transactional records in a request without a transactional id, or with another's."""


class ProducerFenced(RequestRefused):
    """A newer producer has the transactional id; the older one must stop."""


class InvalidProducerIdMapping(RequestRefused):
    """The transactional id is unknown, or belongs to another producer id."""


class InvalidTransactionTimeout(RequestRefused):
    """A transaction timeout that is not positive, or above `transaction.max.timeout.ms`."""


class ConcurrentTransactions(RequestRefused):
    """The transactional id's last change is not complete; retry."""


class TransactionCoordinatorFenced(RequestRefused):
    """A marker of an older coordinator epoch."""


class TransactionalIdNotFound(RequestRefused):
    """No such transactional id."""


class TransactionAbortable(RequestRefused):
    """The transaction can't be continued: the client must abort it."""


class OperationNotAttempted(RequestRefused):
    """Not done, because another part of the same request was refused."""


class UnstableOffsetCommit(RequestRefused):
    """An open transaction holds an offset of the group that is not committed yet; retry."""


class FetchSessionNotFound(RequestRefused):
    """No such fetch session; it may have been evicted."""


class InvalidFetchSessionEpoch(RequestRefused):
    """The fetch session expects another epoch."""


class FetchSessionTopicIdError(RequestRefused):
    """A fetch session that mixes topic names and topic ids."""


class FencedStateEpoch(RequestRefused):
    """The offsets of the share partition were reset or deleted meanwhile."""


class GroupIdNotFound(RequestRefused):
    """No such group."""


class UnknownMember(RequestRefused):
    """The group has no such member."""


class MemberIdRequired(RequestRefused):
    """A new member must join again with the id of the response, `member_id`."""

    def __init__(self, member_id: str) -> None:
        super().__init__(f"join again with the member id {member_id}")
        self.member_id = member_id


class FencedInstanceId(RequestRefused):
    """A static member was replaced by another with the same `group.instance.id`."""


class IllegalGeneration(RequestRefused):
    """The member's generation is not the group's."""


class StaleMemberEpoch(RequestRefused):
    """Offsets were requested with another member epoch than the current one."""


class RebalanceInProgress(RequestRefused):
    """The group is rebalancing: join again."""


class InconsistentGroupProtocol(RequestRefused):
    """No protocol that all members share, or another protocol type."""


class GroupMaxSizeReached(RequestRefused):
    """The group, or the broker, has as many members as allowed."""


class CoordinatorNotAvailable(RequestRefused):
    """The coordinator can't serve the request now; retry."""


class CoordinatorLoadInProgress(RequestRefused):
    """The coordinator is still reading its log; retry."""


# --- values that can't be encoded, and other failures


class UnencodableMessage(KqueueError, ValueError):
    """A value that its field cannot encode: out of range, too long, or a forbidden None."""


class NotCoordinator(RequestRefused):
    """Another broker is the coordinator, or its log is not writable: find the coordinator again."""


class ListenFailed(KqueueError):
    """The broker can't listen on an address: in use, not this machine's, or not permitted."""


class JobCancelled(KqueueError):
    """A job in its own process was ended because the broker stops."""


class JobFailed(KqueueError):
    """A job in its own process ended without a result: not started, or the process died."""


class ProcessDied(JobFailed):
    """The process of a job was killed or crashed. A retry may succeed."""


class ExtraNeeded(KqueueError):
    """A package of one of kqueue's extras is missing; the message says how to install it."""


class SnapshotRefused(KqueueError):
    """A folder that can't receive a snapshot, or from which no broker can start."""
