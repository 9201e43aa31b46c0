"""Errors in the responses of other brokers, as the exceptions from which they were made there."""

from __future__ import annotations

from kqueue.base import errors
from kqueue.base.errors import KqueueError
from kqueue.wire.error_codes import ErrorCode

_EXCEPTIONS: dict[int, type[KqueueError]] = {
    ErrorCode.CONCURRENT_TRANSACTIONS: errors.ConcurrentTransactions,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: errors.CoordinatorLoadInProgress,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: errors.CoordinatorNotAvailable,
    ErrorCode.FENCED_LEADER_EPOCH: errors.FencedLeaderEpoch,
    ErrorCode.FENCED_STATE_EPOCH: errors.FencedStateEpoch,
    ErrorCode.INVALID_PRODUCER_EPOCH: errors.InvalidProducerEpoch,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: errors.InvalidProducerIdMapping,
    ErrorCode.INVALID_REQUEST: errors.InvalidRequest,
    ErrorCode.INVALID_TXN_STATE: errors.InvalidTransactionState,
    ErrorCode.KAFKA_STORAGE_ERROR: errors.StorageFailed,
    ErrorCode.NOT_COORDINATOR: errors.NotCoordinator,
    ErrorCode.NOT_ENOUGH_REPLICAS: errors.NotEnoughReplicas,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: errors.NotLeader,
    ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE: errors.OffsetMovedToTieredStorage,
    ErrorCode.OPERATION_NOT_ATTEMPTED: errors.OperationNotAttempted,
    ErrorCode.POLICY_VIOLATION: errors.PolicyViolation,
    ErrorCode.PRODUCER_FENCED: errors.ProducerFenced,
    ErrorCode.REQUEST_TIMED_OUT: errors.RequestTimedOut,
    ErrorCode.TRANSACTION_ABORTABLE: errors.TransactionAbortable,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: errors.TransactionCoordinatorFenced,
    ErrorCode.UNKNOWN_TOPIC_ID: errors.UnknownTopicId,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: errors.UnknownTopicOrPartition,
}


def error_of(code: int, what: str) -> KqueueError | None:
    """Return the exception of an error code; None: there is no error.

    Args: what: whose answer this is, for the message.
    """
    if code == ErrorCode.NONE:
        return None
    try:
        name = ErrorCode(code).name
    except ValueError:
        name = f"error code {code}"
    return _EXCEPTIONS.get(code, KqueueError)(f"{what}: {name}")
