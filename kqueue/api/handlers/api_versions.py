"""ApiVersions: what this broker serves. The first request of nearly every client."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from kqueue.api import handler_table
from kqueue.api.request_context import RequestContext
from kqueue.wire.apis import API_VERSIONS
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

VERSIONS = (0, 4)
VERSION_NAMED = 3  # from here on a client tells its software's name and version
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class Advertised(NamedTuple):
    """One API in the answer: its key, and the lowest and highest version that a client may use."""

    key: int
    low: int
    high: int


def handle(request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    return tell(request, context.api_version, _all())


def tell(request: ApiVersionsRequest, api_version: int, advertised: Sequence[Advertised]) -> ApiVersionsResponse:
    """All that is `advertised`; to a version that is not, that error and the range of this one API
    (KIP-511).
    """
    mine = next(row for row in advertised if row.key == API_VERSIONS)
    if not mine.low <= api_version <= mine.high:
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_row(mine)])
    if api_version >= VERSION_NAMED and not _is_named(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(api_keys=[_row(row) for row in advertised])


def _is_named(request: ApiVersionsRequest) -> bool:
    return all(_SOFTWARE.fullmatch(text) for text in (request.client_software_name, request.client_software_version))


def _row(row: Advertised) -> ApiVersion:
    return ApiVersion(api_key=row.key, min_version=row.low, max_version=row.high)


@cache
def _all() -> list[Advertised]:
    return [Advertised(row.api.key, *row.versions) for row in handler_table.all_handlers()]
