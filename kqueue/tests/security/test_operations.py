from __future__ import annotations

from kqueue.security.operations import AclOperation, member
from kqueue.tests.tables import for_each


@for_each("number", [-128, -1, 0, 16, 127])
def test_a_number_without_a_meaning_is_unknown(number: int) -> None:
    assert member(AclOperation, number) is AclOperation.UNKNOWN
