"""DescribeConfigs: the settings of topics and brokers, and where each value comes from."""

from __future__ import annotations

from collections.abc import Callable

from kqueue.api.call import Call
from kqueue.api.configs import ConfigRow, broker_rows, topic_rows
from kqueue.api.errors import code_of, message_of
from kqueue.base.errors import InvalidRequest, KqueueError, UnsupportedVersion
from kqueue.base.names import check_topic
from kqueue.base.settings import Source
from kqueue.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

VERSIONS = (0, 4)
VERSION_SOURCES = 1  # from here on it is told where a value comes from, before only whether it is the default
TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
CLIENT_METRICS = 16
GROUP = 32


def handle(request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_describe(request, resource, call) for resource in request.resources])


def refuse(request: DescribeConfigsRequest, version: int, error: BaseException) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_refused(resource, error) for resource in request.resources])


def _describe(request: DescribeConfigsRequest, resource: DescribeConfigsResource, call: Call) -> DescribeConfigsResult:
    rows = _ROWS.get(resource.resource_type, _unknown)
    asked = resource.configuration_keys or None  # none named is all, as well as null
    try:
        found = rows(call, resource.resource_name)
    except KqueueError as error:
        return _refused(resource, error)
    # topics' settings may be given at any time, brokers' when they start
    read_only = resource.resource_type == BROKER
    return DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_message="",
        configs=[
            _config(row, request, call.api_version, read_only=read_only) for row in found if asked is None or row.setting.name in asked
        ],
    )


def _refused(resource: DescribeConfigsResource, error: BaseException) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code_of(error),
        error_message=message_of(error),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _config(row: ConfigRow, request: DescribeConfigsRequest, version: int, *, read_only: bool) -> DescribeConfigsResourceResult:
    synonyms = [DescribeConfigsSynonym(name=one.name, value=one.value, source=one.source.value) for one in row.synonyms]
    return DescribeConfigsResourceResult(
        name=row.setting.name,
        value=row.value,
        read_only=read_only,
        is_default=version < VERSION_SOURCES and row.source is Source.DEFAULT,
        config_source=row.source.value,
        is_sensitive=row.is_sensitive,
        synonyms=synonyms if request.include_synonyms else [],
        config_type=row.setting.kind.value,
        documentation=row.setting.doc if request.include_documentation else None,
    )


def _of_topic(call: Call, name: str) -> list[ConfigRow]:
    return topic_rows(call.broker.topics.get(check_topic(name)).config)


def _of_broker(call: Call, name: str) -> list[ConfigRow]:
    if name == "":
        return []  # the defaults that a cluster's brokers share and that can be altered at run time: there are none
    if name != str(call.broker.node_id):
        raise InvalidRequest(f"this is broker {call.broker.node_id}, settings of {name!r} are not known here")
    return broker_rows(call.broker.config)


def _of_nobody(call: Call, name: str) -> list[ConfigRow]:
    """Groups and subscriptions to clients' metrics: they may be asked about, but none has settings of its own here."""
    if name == "":
        raise InvalidRequest("the name must not be empty")
    return []


def _of_loggers(call: Call, name: str) -> list[ConfigRow]:
    raise UnsupportedVersion("log levels are not told over the wire")


def _unknown(call: Call, name: str) -> list[ConfigRow]:
    raise InvalidRequest("unknown type of resource")


_ROWS: dict[int, Callable[[Call, str], list[ConfigRow]]] = {
    TOPIC: _of_topic,
    BROKER: _of_broker,
    BROKER_LOGGER: _of_loggers,
    CLIENT_METRICS: _of_nobody,
    GROUP: _of_nobody,
}
