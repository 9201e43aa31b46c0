from __future__ import annotations

from kqueue.log.policies import Drop
from kqueue.log.policies.consumed import ConsumedPolicy
from kqueue.tests.log.policies.views import NOW_MS, Committed, settings, view
from kqueue.tests.tables import for_each


@for_each(
    "groups, committed, before",
    [
        ("mail", {"mail": 0}, None),
        ("mail", {"mail": 9}, None),
        ("mail", {"mail": 10}, 10),
        ("mail", {"mail": 25}, 20),
        ("mail", {"mail": 30}, 20),
        ("mail,bill", {"mail": 30, "bill": 10}, 10),
        ("mail,bill", {"mail": 30, "bill": 9}, None),
        ("mail,bill", {"mail": 30}, None),
        ("mail", {"other": 30}, None),
    ],
)
def test_segments_consumed_by_every_named_group_are_dropped(
    groups: str, committed: dict[str, int], before: int | None
) -> None:
    """S5.4: whole sealed segments below what all have committed; a group that never committed holds
    everything.
    """
    config = settings(cleanup_policy="consumed", kqueue_consumed_groups=groups)
    planned = ConsumedPolicy().plan(view([100, 100, 100]), Committed(**committed), config, NOW_MS)
    assert planned == (None if before is None else Drop(before, f"consumed by {groups.replace(',', ', ')}"))


def test_without_a_group_nothing_goes() -> None:
    """S5.4"""
    assert (
        ConsumedPolicy().plan(view([1, 1, 1]), Committed(mail=30), settings(cleanup_policy="consumed"), NOW_MS) is None
    )
