"""The headers of requests and responses.

    request   api key int16, api version int16, correlation id int32, [1+] client id string,
              [2] tagged fields
    response  correlation id int32, [1] tagged fields

The header's version follows from the body's: the last one where the body is flexible, else the one
before. Two exceptions: ControlledShutdown 0 has no client id, and ApiVersions responses never have
tagged fields, because the client does not know the broker's versions yet (KIP-511). The client
id keeps its int16 length in all versions.
"""

from __future__ import annotations

import struct

from kqueue.base.errors import MalformedMessage, UnsupportedVersion
from kqueue.schema import encode, field, int16, int32, message, message_schema_of, reader, string
from kqueue.wire.apis import API_VERSIONS, BY_KEY

CONTROLLED_SHUTDOWN = 7
_KEY_AND_VERSION = struct.Struct(">hh")
_CORRELATION = struct.Struct(">i")
_CORRELATION_AND_NO_TAGS = struct.Struct(">ix")


@message(versions="0-2", flexible="2+")
class RequestHeader:
    """Header of a request."""

    api_key: int = field(int16)
    api_version: int = field(int16)
    correlation_id: int = field(int32)
    client_id: str | None = field(string, "1+", nullable="1+", default=None, ignorable=True, compact=False)


@message(versions="0-1", flexible="1+")
class ResponseHeader:
    """Header of a response."""

    correlation_id: int = field(int32)


def request_header_version(api_key: int, api_version: int) -> int:
    """Return the version of a request's header.

    Raises:
        UnsupportedVersion: unknown API.
    """
    if api_key == CONTROLLED_SHUTDOWN and api_version == 0:
        return 0
    api = BY_KEY.get(api_key)
    if api is None:
        raise UnsupportedVersion(f"no API has the key {api_key}")
    return 2 if api.is_flexible(api_version) else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """Return the version of a response's header.

    Raises:
        UnsupportedVersion: unknown API.
    """
    return 0 if api_key == API_VERSIONS else max(0, request_header_version(api_key, api_version) - 1)


def read_request_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """Return the header of a request and the position of its body.

    The API version is not checked.

    Raises:
        MalformedMessage: the header is damaged.
        UnsupportedVersion: unknown API.
    """
    if len(frame) < 8:
        raise MalformedMessage(f"expected a request of at least 8 bytes, found {len(frame)}")
    key, version = _KEY_AND_VERSION.unpack_from(frame)
    return reader(RequestHeader, request_header_version(key, version))(frame, 0)


def request_header(api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return an encoded request header.

    Raises:
        UnsupportedVersion: unknown API.
    """
    header = RequestHeader(api_key=api_key, api_version=api_version, correlation_id=correlation_id, client_id=client_id)
    return encode(header, request_header_version(api_key, api_version))


def read_response_header(frame: memoryview, api_key: int, api_version: int) -> tuple[int, int]:
    """Return the correlation id and the position of the body in a response.

    Raises:
        MalformedMessage: the header is damaged.
    """
    header, position = reader(ResponseHeader, response_header_version(api_key, api_version))(frame, 0)
    return header.correlation_id, position


def response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """Return an encoded response header.

    Raises:
        UnsupportedVersion: unknown API.
    """
    if response_header_version(api_key, api_version) == 0:
        return _CORRELATION.pack(correlation_id)
    return _CORRELATION_AND_NO_TAGS.pack(correlation_id)


def has_error_code(response_class: type, api_version: int) -> bool:
    """Return whether responses of this version have a top-level error code."""
    return any(each.name == "error_code" for each in message_schema_of(response_class).fields_at(api_version))
