"""`cluster.groups`: the groups of all brokers of an embedded cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kqueue.base.errors import UnknownTopicOrPartition
from kqueue.embedded.inspection.broker_calls import NoSuchName
from kqueue.embedded.inspection.groups import Group
from kqueue.groups.group import GroupType

if TYPE_CHECKING:
    from kqueue.embedded.cluster_broker import ClusterBroker


class ClusterGroups(Mapping[str, Group]):
    """All groups by name, each from its coordinator, at the present moment. Groups whose
    coordinator does not run are left out. The lag is that behind the partitions' leaders.
    """

    def __init__(self, serving: Callable[[], list[ClusterBroker]], ends: Callable[[str], Mapping[int, int]]) -> None:
        """Args:
        serving: returns the brokers that run.
        ends: returns partition -> the end offset of a topic. Raises NoSuchName.
        """
        self._serving = serving
        self._ends = ends

    def __getitem__(self, name: str) -> Group:
        for broker in self._serving():
            try:
                return self._with_lag(broker.groups[name])
            except NoSuchName:
                continue
        raise NoSuchName("group", name, list(self))

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({name for broker in self._serving() for name in broker.groups}))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        return f"<groups: {', '.join(self) or 'none'}>"

    def _with_lag(self, group: Group) -> Group:
        if group.type == GroupType.SHARE.value:
            return group  # its lag counts records that are done, which its coordinator knows
        lag: dict[str, dict[int, int]] = {}
        for topic, offsets in group.offsets.items():
            try:
                ends = self._ends(topic)
            except (NoSuchName, UnknownTopicOrPartition):
                continue
            lag[topic] = {index: max(ends[index] - offset, 0) for index, offset in offsets.items() if index in ends}
        return replace(group, lag=lag)
