"""Requests to frames, and frames to responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kqueue.base.errors import MalformedMessage, TooManyItems
from kqueue.client_protocol.versions import API_VERSIONS_API
from kqueue.schema import Chunk, counted_reader, writer
from kqueue.wire.apis import Api
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.frame import frame_length
from kqueue.wire.headers import read_response_header, request_header

CORRELATION_MAX = 2**31 - 1
_UNSUPPORTED = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


class RequestCodec(NamedTuple):
    """Writes the requests of an API at one version, and reads their responses."""

    api: Api
    version: int
    write: Callable[[Any, list[Chunk]], None]
    read: Callable[[memoryview, int, int], tuple[Any, int]]


def codec_of(api: Api, version: int) -> RequestCodec:
    """Return the codec of an API at a version."""
    return RequestCodec(api, version, writer(api.request_class, version), counted_reader(api.response_class, version))


def next_correlation_id(last: int) -> int:
    """Return the correlation id of the request after the one with `last`; 0: of the first one."""
    return last % CORRELATION_MAX + 1


def encode_request(codec: RequestCodec, request: object, correlation_id: int, client_id: str | None) -> list[Chunk]:
    """Return the frame of a request.

    Raises: UnsupportedVersion, UnencodableMessage: a field has a value that the version can't send.
        MalformedMessage: 2 GiB or more.
    """
    chunks: list[Chunk] = [request_header(codec.api.key, codec.version, correlation_id, client_id)]
    codec.write(request, chunks)
    return [frame_length(chunks), *chunks]


def decode_response(codec: RequestCodec, frame: memoryview, correlation_id: int, items_max: int) -> Any:
    """Return the response in a frame, without its length. `record_data` fields are views of it.

    Args:
        codec, correlation_id: of the oldest request that is not answered.
        items_max: elements of all arrays of the response.
    Raises: MalformedMessage: it is not the response to that request, or has more elements.
    """
    api, version, _, read = codec
    answered_id, position = read_response_header(frame, api.key, version)
    if answered_id != correlation_id:
        raise MalformedMessage(
            f"{api.name}: expected the response to request {correlation_id}, found one to request {answered_id}"
        )
    if api is API_VERSIONS_API and frame[position : position + 2] == _UNSUPPORTED:
        read = codec_of(api, 0).read  # a broker that doesn't know the version answers in the first one (KIP-511)
    try:
        response, end = read(frame, position, items_max)
    except TooManyItems as error:
        raise MalformedMessage(f"{api.name}: {error}") from None
    if end != len(frame):
        raise MalformedMessage(f"{api.name}: expected the end at byte {end}, found {len(frame) - end} bytes more")
    return response
