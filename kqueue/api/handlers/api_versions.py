"""ApiVersions (key 18): the APIs and versions that this broker serves.

Usually a client's first request.

Versions 0 to 4:

    0       keys and version ranges
    1       throttle time
    2       clients throttle themselves (KIP-219)
    3       flexible encoding (KIP-482); the client names its software (KIP-511)
    4       lowest feature versions may be 0 (KIP-584)

A request of an unserved version gets UNSUPPORTED_VERSION with the range of ApiVersions, encoded as
version 0 (KIP-511). Features are those of `broker.metadata.features`; version 3 leaves out
supported ones whose lowest level is 0, which its clients refuse.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from kqueue.api import handler_table
from kqueue.api.access import EVERYBODY
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import in_slices
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.metadata.features import FeatureLevels
from kqueue.broker.purgatory import DelayedOperation
from kqueue.wire.apis import API_VERSIONS
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

VERSIONS = (0, 4)
ACCESS = EVERYBODY
VERSION_NAMED = 3  # the request names the client's software
VERSION_LEVEL_0 = 4  # a supported range may begin with 0
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class Advertised(NamedTuple):
    """One API of the response: key, lowest and highest version."""

    key: int
    low: int
    high: int


def handle(
    request: ApiVersionsRequest, context: RequestContext
) -> ApiVersionsResponse | DelayedOperation[ApiVersionsResponse]:
    """Return all APIs that kqueue serves. The first request of a process imports their handlers, in
    slices: all of them take some 80 ms.
    """
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(request: ApiVersionsRequest, context: RequestContext) -> SlicedWork[ApiVersionsResponse]:
    yield from handler_table.load_all()
    return respond(request, context, _all(), context.broker.metadata.features.levels)


def respond(
    request: ApiVersionsRequest, context: RequestContext, advertised: Sequence[Advertised], features: FeatureLevels
) -> ApiVersionsResponse:
    """Return `features` and those of `advertised` that the broker serves; to an unadvertised
    version, the range of ApiVersions alone (KIP-511).
    """
    api_version = context.api_version
    own = next(row for row in advertised if row.key == API_VERSIONS)
    if not own.low <= api_version <= own.high:
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_row(own)])
    if api_version >= VERSION_NAMED and not _is_named(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if api_version >= VERSION_NAMED:
        context.note_software(request.client_software_name, request.client_software_version)
    unserved = handler_table.unserved_keys(context.broker)
    return ApiVersionsResponse(
        api_keys=[_row(row) for row in advertised if row.key not in unserved],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=level_min, max_version=level_max)
            for name, level_min, level_max, _ in features.supported
            if level_min > 0 or api_version >= VERSION_LEVEL_0
        ],
        finalized_features_epoch=features.epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in features.finalized.items()
        ],
    )


def _is_named(request: ApiVersionsRequest) -> bool:
    return all(_SOFTWARE.fullmatch(text) for text in (request.client_software_name, request.client_software_version))


def _row(row: Advertised) -> ApiVersion:
    return ApiVersion(api_key=row.key, min_version=row.low, max_version=row.high)


@cache
def _all() -> list[Advertised]:
    return [Advertised(row.api.key, *row.versions) for row in handler_table.all_handlers()]
