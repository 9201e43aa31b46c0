"""ApiVersions: what this broker serves. The first request of nearly every client."""

from __future__ import annotations

import re
from functools import cache

from kqueue.api import table
from kqueue.api.call import Call
from kqueue.api.errors import ErrorCode
from kqueue.wire.apis import API_VERSIONS
from kqueue.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

VERSIONS = (0, 4)
VERSION_NAMED = 3  # from here on a client tells its software's name and version
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    """All that is served; to a version that we do not have, that error and our range of this one API (KIP-511)."""
    if not VERSIONS[0] <= call.api_version <= VERSIONS[1]:
        mine = [row for row in _rows() if row.api_key == API_VERSIONS]
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=mine)
    if call.api_version >= VERSION_NAMED and not _is_named(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(api_keys=_rows())


def _is_named(request: ApiVersionsRequest) -> bool:
    return all(_SOFTWARE.fullmatch(text) for text in (request.client_software_name, request.client_software_version))


@cache
def _rows() -> list[ApiVersion]:
    return [ApiVersion(api_key=row.api.key, min_version=row.versions[0], max_version=row.versions[1]) for row in table.advertised()]
