"""Errors of brokers and client libraries as one sentence with what to do."""

from __future__ import annotations

_PERMISSION = (
    "an administrator allows it with `kqueue acls add`, or name another user by --command-config FILE or --profile"
)
# For the protocol errors that users meet; other errors show the client's own text.
MESSAGES = {
    "UnknownTopicOrPartitionError": "there is no such topic or partition; `kqueue topics list` shows all topics",
    "TopicAlreadyExistsError": "the topic exists already",
    "InvalidTopicError": "that can't be a topic's name",
    "GroupIdNotFoundError": "there is no such group; `kqueue groups list` shows all groups",
    "NonEmptyGroupError": "the group has members; stop its consumers first",
    "GroupSubscribedToTopicError": "members of the group read this topic; stop its consumers first",
    "UnknownMemberIdError": "the group has members; stop its consumers first",
    "MessageSizeTooLargeError": "a record is larger than the topic allows (max.message.bytes)",
    "RecordListTooLargeError": "a request is larger than the broker allows",
    "InvalidRecordError": "the topic refuses such records (records of a compacted topic need a key)",
    "KafkaTimeoutError": "the broker does not answer",
    "IncompatibleBrokerVersion": "this broker does not serve what the command needs",
    "TopicAuthorizationFailedError": f"this user may not do that with the topic; {_PERMISSION}",
    "GroupAuthorizationFailedError": f"this user may not do that with the group; {_PERMISSION}",
    "ClusterAuthorizationFailedError": f"this user may not do that with the cluster; {_PERMISSION}",
    "TransactionalIdAuthorizationFailedError": f"this user may not use the transactional id; {_PERMISSION}",
    "DelegationTokenAuthorizationFailedError": f"this user may not do that with delegation tokens; {_PERMISSION}",
    "SaslAuthenticationFailedError": "the broker does not accept the user and password; check sasl.mechanism, "
    "sasl.username and sasl.password in the file of --command-config",
    "UnsupportedSaslMechanismError": "the broker does not offer this mechanism; set sasl.mechanism in the file of "
    "--command-config to one that it offers",
    "IllegalSaslStateError": "the listener does not expect this login; check security.protocol in the file of "
    "--command-config, which must be that of the broker's listener",
}
_AUTHORIZATION = {
    "TOPIC_AUTHORIZATION_FAILED": "TopicAuthorizationFailedError",
    "GROUP_AUTHORIZATION_FAILED": "GroupAuthorizationFailedError",
    "CLUSTER_AUTHORIZATION_FAILED": "ClusterAuthorizationFailedError",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "TransactionalIdAuthorizationFailedError",
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED": "DelegationTokenAuthorizationFailedError",
}
LENGTH_MAX = 300


def explain(error: BaseException | type[BaseException], message: str | None = None) -> str:
    """Return the message for an error: the broker's, else that of `MESSAGES`, else the client's.

    The broker's sentence about a missing permission does not say what to do, so that is added.
    """
    name = error.__name__ if isinstance(error, type) else type(error).__name__
    if message:
        said = message.rstrip(".")
        return f"{said}: {MESSAGES[name]}" if name in _AUTHORIZATION.values() else said
    if name in MESSAGES:
        return MESSAGES[name]
    if name == "KafkaError":  # kafka-python has the error of a producer's start in its text only
        if "InitProducerId" in str(error) and "AuthorizationFailedError" in str(error):
            return f"this user may write to no topic; {_PERMISSION}"
        return next((MESSAGES[known] for known in _AUTHORIZATION.values() if known in str(error)), _text(error))
    return _text(error)


def _text(error: BaseException | type[BaseException]) -> str:
    return error.__name__ if isinstance(error, type) else words(error)


def explain_code(code: int, message: str | None = None) -> str:
    """Return the message for an error code of a response, as `explain` does."""
    from kafka.errors import for_code

    return explain(for_code(code), message)


def remedy_of(code_name: str) -> str:
    """Return what to do about an error of a response, or "". `code_name`: Kafka's name."""
    return MESSAGES[_AUTHORIZATION[code_name]] if code_name in _AUTHORIZATION else ""


def words(error: BaseException) -> str:
    """Return an error's text on one line, cut at `LENGTH_MAX`."""
    text = " ".join(str(error).split())
    return text if len(text) <= LENGTH_MAX else f"{text[: LENGTH_MAX - 3]}..."
