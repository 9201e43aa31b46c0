from __future__ import annotations

from kqueue.tests.api.group_client import commit, stable, world
from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.messages.list_groups import ListedGroup, ListGroupsRequest

VERSIONS = versions_of("list_groups")


def two_groups() -> SimulatedClient:
    client = world()
    commit(client, {("t", 0): 1}, group_id="simple")
    stable(client)
    return client


@for_each("version", VERSIONS)
def test_all_groups_are_listed(version: int) -> None:
    states = ("Empty", "Stable") if version >= 4 else ("", "")
    kind = "classic" if version >= 5 else ""
    assert two_groups().ask(ListGroupsRequest(), version).groups == [
        ListedGroup(group_id="simple", protocol_type="", group_state=states[0], group_type=kind),
        ListedGroup(group_id="g", protocol_type="consumer", group_state=states[1], group_type=kind),
    ]


@for_each(
    "version, filters, expected",
    [
        (4, {"states_filter": ["Stable"]}, ["g"]),
        (5, {"states_filter": ["stable", "EMPTY"]}, ["simple", "g"]),
        (5, {"states_filter": ["Dead"]}, []),
        (5, {"states_filter": ["no state"]}, []),
        (5, {"types_filter": ["Classic"]}, ["simple", "g"]),
        (5, {"types_filter": ["consumer", "share"]}, []),
        (5, {"types_filter": ["classic"], "states_filter": ["Empty"]}, ["simple"]),
    ],
)
def test_filters_let_pass_what_they_name(version: int, filters: dict[str, list[str]], expected: list[str]) -> None:
    assert [group.group_id for group in two_groups().ask(ListGroupsRequest(**filters), version).groups] == expected


def test_a_broker_without_groups_lists_none() -> None:
    assert world().ask(ListGroupsRequest(), 5).groups == []
