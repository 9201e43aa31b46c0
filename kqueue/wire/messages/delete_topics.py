"""DeleteTopics (key 20): delete topics by name or id."""

from __future__ import annotations

from kqueue.schema import array, field, int16, int32, message, shortened, string, struct, uuid


@struct
class DeleteTopicState:
    name: str | None = field(string, "6+", nullable="6+", default=None)
    topic_id: bytes = field(uuid, "6+")


@message(api_key=20, versions="0-6", flexible="4+")
class DeleteTopicsRequest:
    topics: list[DeleteTopicState] = field(array(DeleteTopicState), "6+")
    topic_names: list[str] = field(array(string), "0-5", ignorable=True)
    timeout_ms: int = field(int32)


@struct
class DeletableTopicResult:
    name: str | None = field(string, nullable="6+")
    topic_id: bytes = field(uuid, "6+", ignorable=True)
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, "5+", nullable="5+", default=None, ignorable=True))


@message(api_key=20, versions="0-6", flexible="4+")
class DeleteTopicsResponse:
    throttle_time_ms: int = field(int32, "1+", ignorable=True)
    responses: list[DeletableTopicResult] = field(array(DeletableTopicResult))
