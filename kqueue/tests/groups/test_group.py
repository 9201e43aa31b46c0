from __future__ import annotations

from kqueue.groups.group import Committer
from kqueue.tests.tables import for_each


@for_each(
    "committer, is_anonymous, is_producer",
    [
        (Committer(-1, "", None), True, False),
        (Committer(-1, "", None, in_transaction=True), True, True),
        (Committer(-2, "", None, in_transaction=True), True, False),
        (Committer(-1, "m", None, in_transaction=True), False, False),
        (Committer(-1, "", "i", in_transaction=True), False, False),
        (Committer(3, "", None, in_transaction=True), False, False),
    ],
)
def test_a_producer_may_leave_its_member_away(committer: Committer, is_anonymous: bool, is_producer: bool) -> None:
    assert (committer.is_anonymous, committer.is_producer) == (is_anonymous, is_producer)
