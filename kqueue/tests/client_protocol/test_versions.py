"""Which version a request has: the highest of both sides, and none in the making."""

from __future__ import annotations

import pytest

from kqueue.client_protocol.versions import (
    NoCommonVersion,
    Versions,
    api_versions_request,
    common_version,
    older_version,
    served_versions,
)
from kqueue.tests.tables import for_each
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.api_versions import ApiVersion, ApiVersionsResponse

LIST_GROUPS = BY_MODULE["list_groups"]


def response(*rows: tuple[int, int, int], error_code: int = 0) -> ApiVersionsResponse:
    keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in rows]
    return ApiVersionsResponse(error_code=error_code, api_keys=keys)


@for_each(
    "served, wanted, expected",
    [((0, 99), None, 5), ((0, 3), None, 3), ((0, 0), None, 0), ((2, 5), (0, 4), 4), ((4, 5), (4, 9), 5)],
)
def test_the_highest_version_of_both_sides_is_chosen(served: Versions, wanted: Versions | None, expected: int) -> None:
    assert common_version(LIST_GROUPS, {LIST_GROUPS.key: served}, wanted) == expected


@for_each(
    "served, wanted, words",
    [
        ((4, 5), (0, 3), "ListGroups is needed in versions 0 to 3, but this broker serves it in versions 4 to 5"),
        ((6, 9), None, "ListGroups is needed in versions 0 to 5, but this broker serves it in versions 6 to 9"),
        ((0, 1), (2, 9), "ListGroups is needed in versions 2 to 5, but this broker serves it in versions 0 to 1"),
    ],
)
def test_no_common_version_names_both_sides(served: Versions, wanted: Versions | None, words: str) -> None:
    with pytest.raises(NoCommonVersion, match=words):
        common_version(LIST_GROUPS, {LIST_GROUPS.key: served}, wanted)


def test_an_api_that_the_broker_does_not_name_is_not_served() -> None:
    with pytest.raises(NoCommonVersion, match="versions 0 to 5, but this broker does not serve it"):
        common_version(LIST_GROUPS, {})


def test_a_version_in_the_making_is_not_chosen() -> None:
    api = BY_MODULE["init_producer_id"]
    assert (api.versions[1], common_version(api, {api.key: (0, 99)})) == (6, 5)


@for_each(
    "rows, version, older",
    [([(18, 0, 2)], 4, 2), ([(18, 0, 9)], 4, 3), ([], 4, 0), ([(18, 0, 2)], 0, None)],
)
def test_apiversions_is_sent_again_in_an_older_version(
    rows: list[tuple[int, int, int]], version: int, older: int | None
) -> None:
    refused = response(*rows, error_code=ErrorCode.UNSUPPORTED_VERSION)
    assert older_version(refused, version) == older


def test_apiversions_is_not_sent_again_after_another_answer() -> None:
    assert older_version(response((18, 0, 2)), 4) is None
    assert older_version(response(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED), 4) is None


def test_served_versions_are_those_of_the_response() -> None:
    assert served_versions(response((0, 3, 9), (18, 0, 4))) == {0: (3, 9), 18: (0, 4)}


def test_the_first_request_names_kqueue() -> None:
    assert api_versions_request().client_software_name == "kqueue"
