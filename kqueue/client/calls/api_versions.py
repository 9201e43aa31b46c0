"""ApiVersions: which requests a broker serves, in which versions."""

from __future__ import annotations

import kqueue
from kqueue.client.retry_policy import response_error
from kqueue.client_protocol.versions import Versions
from kqueue.wire.apis import API_VERSIONS, BY_KEY
from kqueue.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


class DescribeApis:
    """ApiVersions of one broker."""

    api = BY_KEY[API_VERSIONS]
    versions = BY_KEY[API_VERSIONS].versions
    repeatable = True

    def request(self, version: int) -> ApiVersionsRequest:
        return ApiVersionsRequest(client_software_name="kqueue", client_software_version=kqueue.__version__)

    def result(self, version: int, response: ApiVersionsResponse, broker: str) -> dict[int, Versions]:
        if response.error_code:
            raise response_error(response.error_code, self.api.name, broker)
        return {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
