from __future__ import annotations

import pytest

from kqueue.api.acl_messages import filter_of
from kqueue.base.errors import UnsupportedVersion
from kqueue.client.calls.acls import DescribeAcls
from kqueue.security.acls import AclFilter
from kqueue.security.operations import PatternType


def test_version_0_has_literal_patterns_only() -> None:
    literal = AclFilter(pattern_type=PatternType.LITERAL)
    assert filter_of(DescribeAcls(literal).request(3), 0) == literal
    prefixed = AclFilter(pattern_type=PatternType.PREFIXED)
    assert filter_of(DescribeAcls(prefixed).request(3), 1) == prefixed
    with pytest.raises(UnsupportedVersion):
        filter_of(DescribeAcls(prefixed).request(3), 0)
