from __future__ import annotations

import pytest

from kqueue.api.acl_messages import filter_of, member
from kqueue.base.errors import UnsupportedVersion
from kqueue.security.acls import AclFilter
from kqueue.security.operations import AclOperation, PatternType
from kqueue.tests.api.acl_client import description


@pytest.mark.parametrize("number", [-128, -1, 0, 16, 127])
def test_a_number_without_a_meaning_is_unknown(number: int) -> None:
    assert member(AclOperation, number) is AclOperation.UNKNOWN


def test_version_0_has_literal_patterns_only() -> None:
    literal = AclFilter(pattern_type=PatternType.LITERAL)
    assert filter_of(description(literal), 0) == literal
    prefixed = AclFilter(pattern_type=PatternType.PREFIXED)
    assert filter_of(description(prefixed), 1) == prefixed
    with pytest.raises(UnsupportedVersion):
        filter_of(description(prefixed), 0)
