"""Each error that kqueue answers with: when it does so, and what its reader can do."""

from __future__ import annotations

from typing import NamedTuple

from kqueue.wire.error_codes import ErrorCode


class ErrorAdvice(NamedTuple):
    """What an error means.

    Attributes:
        when: kqueue answers so, in Markdown.
        action: what helps, in Markdown; it begins with "none" where clients help themselves.
    """

    when: str
    action: str


ERROR_ADVICE: dict[ErrorCode, ErrorAdvice] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: ErrorAdvice(
        "the broker met an error that it has no code for; its log has the event `request.failed` with the stack",
        "read the broker's log, and report what it says",
    ),
    ErrorCode.OFFSET_OUT_OF_RANGE: ErrorAdvice(
        "the offset is below the log's start, because retention deleted it, or above its end",
        "set `auto.offset.reset`, move the group with `kqueue groups reset-offsets`, or raise `retention.ms`",
    ),
    ErrorCode.CORRUPT_MESSAGE: ErrorAdvice(
        "a batch has a wrong length, checksum or count: on its way, or on the disk",
        "`kqueue log verify` tells whether the disk is at fault; else look at the client, and what is between both",
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorAdvice(
        "no such topic exists, or no such partition of it; or the client may not describe it",
        "`kqueue topics list`; create it, or allow `describe`",
    ),
    ErrorCode.LEADER_NOT_AVAILABLE: ErrorAdvice(
        "the partition has no leader now: it is being created or recovered, or its brokers are down",
        "wait; `kqueue topics describe --unavailable-partitions`",
    ),
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorAdvice(
        "another broker leads the partition, or its log is being recovered after a crash",
        "none: clients read the metadata again",
    ),
    ErrorCode.REQUEST_TIMED_OUT: ErrorAdvice(
        "the request's own timeout ended first: replicas were slow, or a quorum of the metadata store was",
        "look for slow disks with `kqueue top`; raise the client's `request.timeout.ms`",
    ),
    ErrorCode.REPLICA_NOT_AVAILABLE: ErrorAdvice(
        "the partition has no replica on this broker that it can use",
        "wait, or read the metadata again",
    ),
    ErrorCode.MESSAGE_TOO_LARGE: ErrorAdvice(
        "a batch is larger than `max.message.bytes` of the topic",
        "send smaller batches or records, or raise `max.message.bytes`",
    ),
    ErrorCode.OFFSET_METADATA_TOO_LARGE: ErrorAdvice(
        "the text beside a committed offset is longer than `offset.metadata.max.bytes`",
        "commit less text",
    ),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorAdvice(
        "the coordinator reads its log after a start or a change of leaders",
        "none: clients retry",
    ),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorAdvice(
        "no broker can coordinate the group or transaction now",
        "wait; in a cluster look whether `__consumer_offsets` or `__transaction_state` has a leader",
    ),
    ErrorCode.NOT_COORDINATOR: ErrorAdvice(
        "another broker coordinates the group or transaction",
        "none: clients look for it again",
    ),
    ErrorCode.INVALID_TOPIC_EXCEPTION: ErrorAdvice(
        "the name has characters besides letters, digits, `.`, `_` and `-`, over 249 of them, or is internal",
        "take another name",
    ),
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorAdvice(
        "fewer replicas are in sync than `min.insync.replicas`; nothing was appended",
        "bring brokers back; `kqueue topics describe --under-min-isr-partitions`",
    ),
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorAdvice(
        "the records were appended, then replicas fell out of sync",
        "bring brokers back; a producer that is not idempotent may write them twice",
    ),
    ErrorCode.INVALID_REQUIRED_ACKS: ErrorAdvice(
        "acks is none of 0, 1 and -1",
        "set `acks` to `all`, 1 or 0",
    ),
    ErrorCode.ILLEGAL_GENERATION: ErrorAdvice(
        "the member's generation is an old one: the group has rebalanced without it",
        "rejoin; if it happens again and again, process fewer records per poll, or raise `max.poll.interval.ms`",
    ),
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: ErrorAdvice(
        "the member shares no assignor with the group, or the group is of another type",
        "give all members an assignor in common; use another group for another type",
    ),
    ErrorCode.INVALID_GROUP_ID: ErrorAdvice(
        "the request needs a group and has an empty id",
        "set `group.id`",
    ),
    ErrorCode.UNKNOWN_MEMBER_ID: ErrorAdvice(
        "the group has no such member: its session has timed out, or it has left",
        "rejoin; raise `session.timeout.ms` if the member is slow",
    ),
    ErrorCode.INVALID_SESSION_TIMEOUT: ErrorAdvice(
        "the session timeout is outside `group.min.session.timeout.ms` and `group.max.session.timeout.ms`",
        "change the client's `session.timeout.ms`, or the broker's bounds",
    ),
    ErrorCode.REBALANCE_IN_PROGRESS: ErrorAdvice(
        "the group is assigning partitions anew",
        "none: clients rejoin",
    ),
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: ErrorAdvice(
        "the committed offsets would exceed the memory that they may take, or the record of one is too large",
        "delete groups that nobody uses",
    ),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: ErrorAdvice(
        "the user may not do this with the topic",
        "`kqueue acls add`; the audit log says which operation was denied",
    ),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ErrorAdvice(
        "the user may not do this with the group",
        "`kqueue acls add`; the audit log says which operation was denied",
    ),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ErrorAdvice(
        "the user may not do this with the cluster",
        "`kqueue acls add`; the audit log says which operation was denied",
    ),
    ErrorCode.INVALID_TIMESTAMP: ErrorAdvice(
        "a timestamp is outside of `message.timestamp.before.max.ms` and `message.timestamp.after.max.ms`",
        "set the clock of the producer, or the topic's bounds",
    ),
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: ErrorAdvice(
        "the listener does not offer the mechanism",
        "set the client's `sasl.mechanism` to one that the message names",
    ),
    ErrorCode.ILLEGAL_SASL_STATE: ErrorAdvice(
        "the request does not belong here: a login where none is expected, or none where one is",
        "set the client's `security.protocol` to that of the listener",
    ),
    ErrorCode.UNSUPPORTED_VERSION: ErrorAdvice(
        "the broker does not know the version, or what the request asks for",
        "`kqueue cluster apis` lists what is served; update the client or the broker",
    ),
    ErrorCode.TOPIC_ALREADY_EXISTS: ErrorAdvice(
        "a topic of this name exists",
        "use it, or take another name",
    ),
    ErrorCode.INVALID_PARTITIONS: ErrorAdvice(
        "the number of partitions is not positive, not more than before, or above a limit",
        "ask for another number",
    ),
    ErrorCode.INVALID_REPLICATION_FACTOR: ErrorAdvice(
        "more replicas than brokers that run, or none",
        "ask for fewer, or start brokers",
    ),
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: ErrorAdvice(
        "a manual assignment names a broker that does not exist, or one twice",
        "`kqueue cluster describe` lists the brokers",
    ),
    ErrorCode.INVALID_CONFIG: ErrorAdvice(
        "a setting does not exist or has no such value; the message names what was expected",
        "`kqueue settings NAME`",
    ),
    ErrorCode.NOT_CONTROLLER: ErrorAdvice(
        "a change of metadata lost against another one, or the broker's session has ended",
        "none: clients retry, at another broker if need be",
    ),
    ErrorCode.INVALID_REQUEST: ErrorAdvice(
        "fields contradict each other or the protocol; the message says which",
        "update the client; report what the message says",
    ),
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: ErrorAdvice(
        "the log is of a message format that does not have what is asked for",
        "read without it; a compacted copy of the topic has the new format",
    ),
    ErrorCode.POLICY_VIOLATION: ErrorAdvice(
        "a limit of this broker forbids it, such as the number of partitions",
        "the message names the limit; `kqueue settings` has it",
    ),
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: ErrorAdvice(
        "an idempotent producer's batch follows one that never arrived",
        "none: clients begin again; if it stays, restart the producer",
    ),
    ErrorCode.INVALID_PRODUCER_EPOCH: ErrorAdvice(
        "a newer producer with the same id has written",
        "close the older producer",
    ),
    ErrorCode.INVALID_TXN_STATE: ErrorAdvice(
        "the request does not fit the state of the transaction",
        "begin and end transactions in turn; `kqueue transactions describe`",
    ),
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: ErrorAdvice(
        "the transactional id is unknown or has another producer id, because it expired",
        "restart the producer, which gets a new id",
    ),
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: ErrorAdvice(
        "the timeout is not positive or above `transaction.max.timeout.ms`",
        "lower the client's `transaction.timeout.ms`",
    ),
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorAdvice(
        "the last change of the transactional id is not complete",
        "none: clients retry",
    ),
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: ErrorAdvice(
        "a marker has an older epoch of the coordinator than the partition has seen",
        "none: the newer coordinator ends the transaction",
    ),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ErrorAdvice(
        "the user may not use the transactional id",
        "`kqueue acls add`; the audit log says which operation was denied",
    ),
    ErrorCode.SECURITY_DISABLED: ErrorAdvice(
        "no authorizer is set, so nothing has ACLs",
        "set `authorizer.class.name`",
    ),
    ErrorCode.OPERATION_NOT_ATTEMPTED: ErrorAdvice(
        "another part of the same request was refused, so this part was not tried",
        "mend the part with another error",
    ),
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorAdvice(
        "the disk is full, or it failed and the log is offline; or a data folder belongs to another broker",
        "read the broker's log; make room, or repair the disk and restart the broker",
    ),
    ErrorCode.LOG_DIR_NOT_FOUND: ErrorAdvice(
        "the path is none of the broker's data folders",
        "`kqueue log-dirs` lists them",
    ),
    ErrorCode.SASL_AUTHENTICATION_FAILED: ErrorAdvice(
        "user, password, token or certificate are wrong; the answer does not say which",
        "check the credentials; the broker's log has the reason",
    ),
    ErrorCode.UNKNOWN_PRODUCER_ID: ErrorAdvice(
        "the partition knows nothing of the producer: retention deleted its records",
        "none: clients begin again",
    ),
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: ErrorAdvice(
        "no key for delegation tokens is set",
        "set `delegation.token.secret.key`",
    ),
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: ErrorAdvice(
        "no token has this HMAC: it has ended, or never was",
        "create a token",
    ),
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: ErrorAdvice(
        "neither the token's owner nor one of its renewers asks",
        "ask as one of them",
    ),
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: ErrorAdvice(
        "the connection is not authenticated, or by a token",
        "ask over a connection with a password or certificate",
    ),
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: ErrorAdvice(
        "the user may not do this with the token",
        "`kqueue acls add`; the audit log says which operation was denied",
    ),
    ErrorCode.DELEGATION_TOKEN_EXPIRED: ErrorAdvice(
        "the token has ended",
        "create a token; renew it before its end",
    ),
    ErrorCode.INVALID_PRINCIPAL_TYPE: ErrorAdvice(
        "a principal is no user",
        "name principals as `User:NAME`",
    ),
    ErrorCode.NON_EMPTY_GROUP: ErrorAdvice(
        "the group has members",
        "stop its consumers first",
    ),
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorAdvice(
        "no such group exists",
        "`kqueue groups list`",
    ),
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: ErrorAdvice(
        "the fetch session was evicted for others, or belongs to an earlier start",
        "none: clients begin a session",
    ),
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: ErrorAdvice(
        "a request of the session was lost",
        "none: clients begin a session",
    ),
    ErrorCode.LISTENER_NOT_FOUND: ErrorAdvice(
        "the leader has no listener of the name by which the client is connected",
        "give all brokers the same names in `listeners`",
    ),
    ErrorCode.TOPIC_DELETION_DISABLED: ErrorAdvice(
        "`delete.topic.enable` is false",
        "set it, if topics may be deleted",
    ),
    ErrorCode.FENCED_LEADER_EPOCH: ErrorAdvice(
        "the client's leader epoch is older than the broker's",
        "none: clients read the metadata again",
    ),
    ErrorCode.UNKNOWN_LEADER_EPOCH: ErrorAdvice(
        "the client's leader epoch is newer than the broker's",
        "none: clients retry",
    ),
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: ErrorAdvice(
        "the codec is unknown, or not allowed at the request's version",
        "use one of none, gzip, snappy, lz4 and zstd; `kqueue plugins` lists the broker's",
    ),
    ErrorCode.OFFSET_NOT_AVAILABLE: ErrorAdvice(
        "records that were appended before the question can't be read by consumers yet",
        "none: clients retry",
    ),
    ErrorCode.MEMBER_ID_REQUIRED: ErrorAdvice(
        "a new member is to join again with the id of the answer",
        "none: clients do so",
    ),
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: ErrorAdvice(
        "the preferred leader is not in sync, or down",
        "bring it back, and wait until it is in sync",
    ),
    ErrorCode.GROUP_MAX_SIZE_REACHED: ErrorAdvice(
        "the group has as many members as `group.max.size`, or the broker as many as it may have",
        "stop members, or raise the limit",
    ),
    ErrorCode.FENCED_INSTANCE_ID: ErrorAdvice(
        "another member uses the same `group.instance.id`",
        "give each process an id of its own",
    ),
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: ErrorAdvice(
        "no replica may become leader",
        "bring back a broker that was in sync; an unclean election loses records",
    ),
    ErrorCode.ELECTION_NOT_NEEDED: ErrorAdvice(
        "the partition has that leader already",
        "none",
    ),
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: ErrorAdvice(
        "nothing is being reassigned that could be cancelled",
        "`kqueue cluster reassign` lists them",
    ),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: ErrorAdvice(
        "members of the group read the topic, so its offsets can't be deleted",
        "stop its consumers first",
    ),
    ErrorCode.INVALID_RECORD: ErrorAdvice(
        "the topic refuses the record: one without a key where it is compacted, a control batch of a client",
        "the answer names the record; send keys, or change the topic's `cleanup.policy`",
    ),
    ErrorCode.UNSTABLE_OFFSET_COMMIT: ErrorAdvice(
        "an open transaction has an offset of the group",
        "none: clients retry; `kqueue transactions find-hanging` finds transactions that nobody ends",
    ),
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: ErrorAdvice(
        "the client changes topics more often than its quota allows",
        "wait as long as the answer says; `kqueue quotas`",
    ),
    ErrorCode.PRODUCER_FENCED: ErrorAdvice(
        "a newer producer has the transactional id",
        "close the older producer; give each one an id of its own",
    ),
    ErrorCode.RESOURCE_NOT_FOUND: ErrorAdvice(
        "the user has no such SCRAM credential",
        "`kqueue users list`",
    ),
    ErrorCode.DUPLICATE_RESOURCE: ErrorAdvice(
        "one request names the same credential twice",
        "name it once",
    ),
    ErrorCode.UNACCEPTABLE_CREDENTIAL: ErrorAdvice(
        "a name, salt or number of iterations that SCRAM does not allow",
        "give 4096 to 16384 iterations, and a name",
    ),
    ErrorCode.INVALID_UPDATE_VERSION: ErrorAdvice(
        "the feature can't get this level from its current one",
        "`kqueue cluster info` has what is possible",
    ),
    ErrorCode.FEATURE_UPDATE_FAILED: ErrorAdvice(
        "the new level of the feature could not be stored",
        "look at the broker's disk and metadata store",
    ),
    ErrorCode.UNKNOWN_TOPIC_ID: ErrorAdvice(
        "no topic has this id: it was deleted, perhaps made again",
        "none: clients read the metadata again",
    ),
    ErrorCode.BROKER_ID_NOT_REGISTERED: ErrorAdvice(
        "no such broker is registered",
        "`kqueue cluster describe` lists them",
    ),
    ErrorCode.INCONSISTENT_TOPIC_ID: ErrorAdvice(
        "the topic has another id than the request says: it was made again",
        "none: clients read the metadata again",
    ),
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: ErrorAdvice(
        "no such transactional id exists",
        "`kqueue transactions list`",
    ),
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: ErrorAdvice(
        "a fetch session has topics by name and by id",
        "none: clients begin a session",
    ),
    ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE: ErrorAdvice(
        "the records at this offset are in the remote tier only, and the request reads the leader's disk",
        "followers go on at the leader's first local offset; a consumer gets it only from a broker without the tier",
    ),
    ErrorCode.FENCED_MEMBER_EPOCH: ErrorAdvice(
        "the member's epoch is not the coordinator's: it missed an assignment",
        "none: the member gives up its partitions and rejoins",
    ),
    ErrorCode.UNRELEASED_INSTANCE_ID: ErrorAdvice(
        "another member has the same `group.instance.id`, and has not left",
        "stop it, or wait for its session to end",
    ),
    ErrorCode.UNSUPPORTED_ASSIGNOR: ErrorAdvice(
        "no assignor of the broker has this name",
        "set `group.remote.assignor` to one that `kqueue plugins` lists",
    ),
    ErrorCode.STALE_MEMBER_EPOCH: ErrorAdvice(
        "the member asked with an older epoch than it has",
        "none: clients retry after the next heartbeat",
    ),
    ErrorCode.MISMATCHED_ENDPOINT_TYPE: ErrorAdvice(
        "the request is for a controller, and this is a broker",
        "use `--bootstrap-server`, not `--bootstrap-controller`",
    ),
    ErrorCode.UNSUPPORTED_ENDPOINT_TYPE: ErrorAdvice(
        "the type of endpoint is unknown",
        "update the client or the broker",
    ),
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID: ErrorAdvice(
        "the client's subscription to metrics has changed",
        "none: clients get the new one",
    ),
    ErrorCode.TELEMETRY_TOO_LARGE: ErrorAdvice(
        "a client pushed more metrics than `telemetry.max.bytes`",
        "subscribe it to fewer, or raise the limit",
    ),
    ErrorCode.TRANSACTION_ABORTABLE: ErrorAdvice(
        "the transaction can't go on",
        "abort it, and begin another",
    ),
    ErrorCode.INVALID_RECORD_STATE: ErrorAdvice(
        "the member has not acquired the record: its lock has ended",
        "acknowledge sooner, or raise `group.share.record.lock.duration.ms`",
    ),
    ErrorCode.SHARE_SESSION_NOT_FOUND: ErrorAdvice(
        "no such share session exists",
        "none: clients begin one",
    ),
    ErrorCode.INVALID_SHARE_SESSION_EPOCH: ErrorAdvice(
        "a request of the share session was lost",
        "none: clients begin one",
    ),
    ErrorCode.FENCED_STATE_EPOCH: ErrorAdvice(
        "the offsets of the share group were reset or deleted meanwhile",
        "none: the broker reads the state again",
    ),
    ErrorCode.INVALID_REGULAR_EXPRESSION: ErrorAdvice(
        "the pattern of topic names is malformed or too large",
        "the message says where; the extra `re2` has Kafka's whole dialect",
    ),
    ErrorCode.STREAMS_INVALID_TOPOLOGY: ErrorAdvice(
        "the topology of a streams group can't be run, whatever topics there are",
        "the message says why; change the program",
    ),
    ErrorCode.SHARE_SESSION_LIMIT_REACHED: ErrorAdvice(
        "there are as many share sessions as allowed",
        "close consumers, or raise `group.share.max.share.sessions`",
    ),
}
"""By code, without NONE. `docs/reference/error-codes.md` is made of it."""
