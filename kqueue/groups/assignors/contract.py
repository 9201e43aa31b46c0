"""Contract of a server-side assignor: which member of a group reads which partitions.

Plugins register an assignor class, called without arguments, under the entry-point group
`kqueue.assignors`. A broker loads one only if its setting `group.consumer.assignors` names it:
members may ask for those assignors, and for no others.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple, Protocol

Assignment = dict[str, dict[bytes, list[int]]]
"""Member id -> topic id -> partitions. Members and topics without partitions may be left out."""
AssignorWork = Generator[None, None, Assignment]


class AssignorMember(NamedTuple):
    """A member to assign to.

    Attributes:
        instance_id, rack_id: None: it has none.
        topics: ids of the existing topics that it subscribes to.
        current: its target assignment until now, which a sticky assignor keeps where it can:
            topic id -> partitions. It may name topics and partitions that no longer exist.
    """

    member_id: str
    instance_id: str | None
    rack_id: str | None
    topics: frozenset[bytes]
    current: Mapping[bytes, frozenset[int]]


class AssignorTopic(NamedTuple):
    """A topic that members subscribe to. `racks`: of each partition; empty: not known."""

    id: bytes
    name: str
    partition_count: int
    racks: tuple[tuple[str, ...], ...] = ()


class Assignor(Protocol):
    """Computes target assignments. Keeps no state between two calls."""

    def assign(self, members: Sequence[AssignorMember], topics: Mapping[bytes, AssignorTopic]) -> AssignorWork:
        """Return each partition of each topic to one of the members that subscribe to the topic.

        A generator: it yields None at least every millisecond of work, so that other requests are
        served meanwhile, and returns the assignment. The same arguments give the same assignment,
        in every process. It must not change its arguments.

        Args:
            members: sorted by member id.
            topics: every topic that a member names, by id, in no order.
        Returns: an assignment that gives no partition to two members, and none to a member that
            does not subscribe to its topic.
        Raises: what it likes. The group keeps its former target if it raises, returns anything
            else, or takes more than 30 s; the broker logs one line and tries again when the group
            changes, or a minute later.
        Thread: the broker's own, in slices.
        """
        ...


AssignorFactory = Callable[[], Assignor]
