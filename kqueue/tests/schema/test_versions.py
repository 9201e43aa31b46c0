from __future__ import annotations

import pytest

from kqueue.schema.structs import NO_VERSIONS, VERSION_MAX, Versions, parse_versions
from kqueue.tests.tables import for_each


@for_each(
    "text, low, high",
    [("3+", 3, VERSION_MAX), ("0-12", 0, 12), ("8", 8, 8), ("0+", 0, VERSION_MAX), ("2-2", 2, 2)],
)
def test_a_range_holds_what_it_names_and_nothing_beside(text: str, low: int, high: int) -> None:
    versions = parse_versions(text)
    assert versions == Versions(low, high)
    assert low in versions
    assert high in versions
    assert low - 1 not in versions
    assert high + 1 not in versions


@for_each("text", ["none", ""])
def test_no_versions_contain_no_version(text: str) -> None:
    assert parse_versions(text) is NO_VERSIONS
    assert not any(version in NO_VERSIONS for version in range(-2, 20))


@for_each("text", ["3+", "0-12", "8", "none"])
def test_a_range_prints_as_it_is_written(text: str) -> None:
    assert str(parse_versions(text)) == text


@for_each("text", ["x", "3-", "-3", "5-2", "1,2", "+"])
def test_malformed_version_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_versions(text)
