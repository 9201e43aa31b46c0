"""The table from exceptions to the error codes of the protocol."""

from __future__ import annotations

import logging

from kqueue.base import errors, events
from kqueue.base.clock import SystemClock
from kqueue.base.rate_limiter import RateLimiter
from kqueue.groups import errors as group_errors
from kqueue.groups.streams.errors import StreamsInvalidTopology
from kqueue.replication.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    NoReassignmentInProgress,
    NotEnoughReplicasAfterAppend,
    PreferredLeaderNotAvailable,
)
from kqueue.security.errors import (
    ClusterAuthorizationFailed,
    CredentialNotFound,
    DuplicateCredential,
    GroupAuthorizationFailed,
    IllegalSaslState,
    InvalidPrincipalType,
    SaslAuthenticationFailed,
    SecurityDisabled,
    TokenAuthorizationFailed,
    TokenExpired,
    TokenNotFound,
    TokenOwnerMismatch,
    TokenRequestNotAllowed,
    TokensDisabled,
    TopicAuthorizationFailed,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from kqueue.share import errors as share_errors
from kqueue.tier.errors import TierCorrupt, TierError
from kqueue.wire.error_codes import ErrorCode

logger = logging.getLogger("kqueue.server")
LOGGED_PER_SECOND = 10
LOGGED_BURST = 100
"""Lines about unexpected errors, for all clients: they can cause them as often as they like."""
_limiter = RateLimiter(LOGGED_PER_SECOND, SystemClock(), LOGGED_BURST)
_LOGGED = "_kqueue_logged"
EXCEPTION_CODES: dict[type[BaseException], ErrorCode] = {
    # the bytes are wrong
    errors.CorruptData: ErrorCode.CORRUPT_MESSAGE,
    errors.MalformedMessage: ErrorCode.INVALID_REQUEST,
    errors.CorruptIndex: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.RecordTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    errors.InvalidRecord: ErrorCode.INVALID_RECORD,
    errors.InvalidTimestamp: ErrorCode.INVALID_TIMESTAMP,
    errors.UnsupportedCodec: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    errors.SettingError: ErrorCode.INVALID_CONFIG,
    # the storage failed
    errors.Conflict: ErrorCode.NOT_CONTROLLER,  # another writer was first; clients retry this code
    errors.SessionLost: ErrorCode.NOT_CONTROLLER,  # a broker that is out of the cluster; clients ask another
    errors.StorageFailed: ErrorCode.KAFKA_STORAGE_ERROR,
    TierError: ErrorCode.KAFKA_STORAGE_ERROR,
    TierCorrupt: ErrorCode.CORRUPT_MESSAGE,
    errors.FolderInUse: ErrorCode.KAFKA_STORAGE_ERROR,
    # the caller is wrong
    errors.InvalidRequest: ErrorCode.INVALID_REQUEST,
    errors.TooManyItems: ErrorCode.INVALID_REQUEST,
    errors.UnsupportedVersion: ErrorCode.UNSUPPORTED_VERSION,
    errors.OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    errors.OffsetMovedToTieredStorage: ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
    errors.UnknownTopicOrPartition: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    errors.LogDirNotFound: ErrorCode.LOG_DIR_NOT_FOUND,
    errors.ReplicaNotAvailable: ErrorCode.REPLICA_NOT_AVAILABLE,
    errors.UnknownTopicId: ErrorCode.UNKNOWN_TOPIC_ID,
    errors.InconsistentTopicId: ErrorCode.INCONSISTENT_TOPIC_ID,
    errors.InvalidTopic: ErrorCode.INVALID_TOPIC_EXCEPTION,
    errors.TopicAlreadyExists: ErrorCode.TOPIC_ALREADY_EXISTS,
    errors.TopicDeletionDisabled: ErrorCode.TOPIC_DELETION_DISABLED,
    errors.InvalidPartitions: ErrorCode.INVALID_PARTITIONS,
    errors.InvalidReplicationFactor: ErrorCode.INVALID_REPLICATION_FACTOR,
    errors.InvalidReplicaAssignment: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    NoReassignmentInProgress: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    ElectionNotNeeded: ErrorCode.ELECTION_NOT_NEEDED,
    PreferredLeaderNotAvailable: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    EligibleLeadersNotAvailable: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    errors.InvalidConfig: ErrorCode.INVALID_CONFIG,
    errors.PolicyViolation: ErrorCode.POLICY_VIOLATION,
    errors.InvalidUpdateVersion: ErrorCode.INVALID_UPDATE_VERSION,
    errors.ThrottlingQuotaExceeded: ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    errors.UnknownSubscriptionId: ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
    errors.TelemetryTooLarge: ErrorCode.TELEMETRY_TOO_LARGE,
    errors.FencedLeaderEpoch: ErrorCode.FENCED_LEADER_EPOCH,
    errors.UnknownLeaderEpoch: ErrorCode.UNKNOWN_LEADER_EPOCH,
    errors.NotLeader: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    errors.LogRecovering: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    errors.InvalidRequiredAcks: ErrorCode.INVALID_REQUIRED_ACKS,
    errors.RequestTimedOut: ErrorCode.REQUEST_TIMED_OUT,
    errors.NotEnoughReplicas: ErrorCode.NOT_ENOUGH_REPLICAS,
    NotEnoughReplicasAfterAppend: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    errors.OffsetNotAvailable: ErrorCode.OFFSET_NOT_AVAILABLE,
    errors.UnsupportedForMessageFormat: ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    errors.OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    errors.InvalidProducerEpoch: ErrorCode.INVALID_PRODUCER_EPOCH,
    errors.InvalidTransactionState: ErrorCode.INVALID_TXN_STATE,
    errors.ProducerFenced: ErrorCode.PRODUCER_FENCED,
    errors.InvalidProducerIdMapping: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    errors.InvalidTransactionTimeout: ErrorCode.INVALID_TRANSACTION_TIMEOUT,
    errors.ConcurrentTransactions: ErrorCode.CONCURRENT_TRANSACTIONS,
    errors.TransactionCoordinatorFenced: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    errors.TransactionalIdNotFound: ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    TopicAuthorizationFailed: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    GroupAuthorizationFailed: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ClusterAuthorizationFailed: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    SecurityDisabled: ErrorCode.SECURITY_DISABLED,
    TokenAuthorizationFailed: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    InvalidPrincipalType: ErrorCode.INVALID_PRINCIPAL_TYPE,
    TokensDisabled: ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
    TokenNotFound: ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
    TokenExpired: ErrorCode.DELEGATION_TOKEN_EXPIRED,
    TokenOwnerMismatch: ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
    TokenRequestNotAllowed: ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    UnacceptableCredential: ErrorCode.UNACCEPTABLE_CREDENTIAL,
    SaslAuthenticationFailed: ErrorCode.SASL_AUTHENTICATION_FAILED,
    IllegalSaslState: ErrorCode.ILLEGAL_SASL_STATE,
    UnsupportedSaslMechanism: ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    CredentialNotFound: ErrorCode.RESOURCE_NOT_FOUND,
    DuplicateCredential: ErrorCode.DUPLICATE_RESOURCE,
    errors.TransactionalIdAuthorizationFailed: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    errors.TransactionAbortable: ErrorCode.TRANSACTION_ABORTABLE,
    errors.OperationNotAttempted: ErrorCode.OPERATION_NOT_ATTEMPTED,
    errors.UnstableOffsetCommit: ErrorCode.UNSTABLE_OFFSET_COMMIT,
    errors.UnknownProducerId: ErrorCode.UNKNOWN_PRODUCER_ID,
    errors.FetchSessionNotFound: ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    errors.InvalidFetchSessionEpoch: ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    errors.FetchSessionTopicIdError: ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    share_errors.InvalidRecordState: ErrorCode.INVALID_RECORD_STATE,
    share_errors.ShareSessionNotFound: ErrorCode.SHARE_SESSION_NOT_FOUND,
    share_errors.InvalidShareSessionEpoch: ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    share_errors.ShareSessionLimitReached: ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    share_errors.NoShareState: ErrorCode.UNKNOWN_SERVER_ERROR,  # as Kafka, whose client survives it
    errors.FencedStateEpoch: ErrorCode.FENCED_STATE_EPOCH,
    group_errors.InvalidGroupId: ErrorCode.INVALID_GROUP_ID,
    errors.GroupIdNotFound: ErrorCode.GROUP_ID_NOT_FOUND,
    group_errors.NonEmptyGroup: ErrorCode.NON_EMPTY_GROUP,
    group_errors.GroupSubscribedToTopic: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    errors.UnknownMember: ErrorCode.UNKNOWN_MEMBER_ID,
    errors.MemberIdRequired: ErrorCode.MEMBER_ID_REQUIRED,
    errors.FencedInstanceId: ErrorCode.FENCED_INSTANCE_ID,
    errors.IllegalGeneration: ErrorCode.ILLEGAL_GENERATION,
    group_errors.FencedMemberEpoch: ErrorCode.FENCED_MEMBER_EPOCH,
    errors.StaleMemberEpoch: ErrorCode.STALE_MEMBER_EPOCH,
    StreamsInvalidTopology: ErrorCode.STREAMS_INVALID_TOPOLOGY,
    group_errors.UnreleasedInstanceId: ErrorCode.UNRELEASED_INSTANCE_ID,
    group_errors.UnsupportedAssignor: ErrorCode.UNSUPPORTED_ASSIGNOR,
    group_errors.InvalidRegularExpression: ErrorCode.INVALID_REGULAR_EXPRESSION,
    errors.RebalanceInProgress: ErrorCode.REBALANCE_IN_PROGRESS,
    errors.InconsistentGroupProtocol: ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    group_errors.InvalidSessionTimeout: ErrorCode.INVALID_SESSION_TIMEOUT,
    errors.GroupMaxSizeReached: ErrorCode.GROUP_MAX_SIZE_REACHED,
    group_errors.InvalidCommitOffsetSize: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    group_errors.OffsetMetadataTooLarge: ErrorCode.OFFSET_METADATA_TOO_LARGE,
    errors.CoordinatorNotAvailable: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    errors.NotCoordinator: ErrorCode.NOT_COORDINATOR,
    errors.CoordinatorLoadInProgress: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


class CodedError(errors.KqueueError):
    """An error that is reported as `code`."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def code_of(error: BaseException | None) -> ErrorCode:
    """Return the error code that reports `error` to clients; None gives NONE.

    The class decides, else its nearest base class in `EXCEPTION_CODES`, else UNKNOWN_SERVER_ERROR.
    An error with this code is logged, once, with its traceback: the code alone says nothing.
    """
    if error is None:
        return ErrorCode.NONE
    code = error.code if isinstance(error, CodedError) else _codes[type(error)]
    if code is None or code is ErrorCode.UNKNOWN_SERVER_ERROR:
        _log_once(error)
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return code


def is_expected(error: BaseException) -> bool:
    """Return whether an error has a code of its own."""
    return isinstance(error, CodedError) or _codes[type(error)] is not None


def mark_logged(error: BaseException) -> None:
    """Leave it to the caller to log `error`, who knows more of the request."""
    setattr(error, _LOGGED, True)


def message_of(error: BaseException | None) -> str | None:
    """Return the error message for clients; None if there is no error.

    The text of an unexpected error stays in the broker's log, because it may hold internals.
    """
    if error is None:
        return None
    if isinstance(error, (errors.PluginError, errors.StorageFailed)):
        return error.summary
    if isinstance(error, errors.KqueueError) and is_expected(error):
        return str(error)
    return "the broker met an error that it did not expect; its log says more"


class _CodesByClass(dict[type[BaseException], ErrorCode | None]):
    """The code of each class, or its nearest base class; looked up once, as a request may have many
    errors.
    """

    def __missing__(self, kind: type[BaseException]) -> ErrorCode | None:
        code = self[kind] = next((EXCEPTION_CODES[base] for base in kind.__mro__ if base in EXCEPTION_CODES), None)
        return code


_codes = _CodesByClass()


def _log_once(error: BaseException) -> None:
    if getattr(error, _LOGGED, False) or _limiter.wait_ms():
        return
    _limiter.count()
    mark_logged(error)
    events.REQUEST_FAILED.log(logger, "a request failed: %s", error=error, exc_info=error)
