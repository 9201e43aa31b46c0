"""Negotiates versions: ApiVersions, then the highest version of each API that both sides have.

ApiVersions is sent in our highest version first. A broker that does not have it answers with
UNSUPPORTED_VERSION, in version 0 and with the versions that it has (KIP-511).
"""

from __future__ import annotations

from collections.abc import Mapping

from kqueue.base.errors import KqueueError
from kqueue.base.version import __version__
from kqueue.wire.apis import API_VERSIONS, BY_KEY, Api
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

Versions = tuple[int, int]
"""The lowest and the highest version of an API."""
API_VERSIONS_API = BY_KEY[API_VERSIONS]
_NONE: Versions = (1, 0)


class NoCommonVersion(KqueueError):
    """No version of an API is one of both sides."""


def api_versions_request() -> ApiVersionsRequest:
    """Return the first request of a connection."""
    return ApiVersionsRequest(client_software_name="kqueue", client_software_version=__version__)


def older_version(response: ApiVersionsResponse, version: int) -> int | None:
    """Return the version in which to send ApiVersions again; None: the broker knows `version`."""
    if response.error_code != ErrorCode.UNSUPPORTED_VERSION or version == 0:
        return None
    highest = next((row.max_version for row in response.api_keys if row.api_key == API_VERSIONS), 0)
    return max(0, min(highest, version - 1))


def served_versions(response: ApiVersionsResponse) -> dict[int, Versions]:
    """Return the versions that the broker has, by API key."""
    return {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}


def common_version(api: Api, served: Mapping[int, Versions], wanted: Versions | None = None) -> int:
    """Return the highest version of a request that both sides have; not one in the making.

    Args:
        served: by API key, what the broker has.
        wanted: what the caller can make use of; None: all of kqueue's.
    Raises: NoCommonVersion.
    """
    low, high = api.versions
    wanted_low, wanted_high = wanted or api.versions
    served_low, served_high = served.get(api.key, _NONE)
    version = min(high - api.unstable, wanted_high, served_high)
    if version < max(low, wanted_low, served_low):
        serves = (
            f"serves it in versions {served_low} to {served_high}" if served_low <= served_high else "does not serve it"
        )
        needed = f"{max(low, wanted_low)} to {min(high, wanted_high)}"
        raise NoCommonVersion(f"{api.name} is needed in versions {needed}, but this broker {serves}")
    return version
