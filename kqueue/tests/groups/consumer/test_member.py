from __future__ import annotations

from kqueue.groups.consumer.member import all_owned
from kqueue.groups.modern.assignment import CurrentAssignment
from kqueue.tests.groups.consumer.consumers import T, U


def test_a_member_owns_what_it_still_revokes() -> None:
    current = CurrentAssignment(assigned={T: {0: 1}}, revoking={T: {1: 1}, U: {0: 1}})
    assert all_owned(current) == {T: {0, 1}, U: {0}}
