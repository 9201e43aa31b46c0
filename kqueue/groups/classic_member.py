"""One member of a group: who it is, what it can do, and what it waits for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from kqueue.base.promise import Promise
from kqueue.groups.lazy_timer import LazyTimer


class JoinRequest(NamedTuple):
    """A request to join. `member_id` is empty for a newcomer, `instance_id` None for a dynamic
    member.

    `protocols`: name -> metadata, the member's favourite first; the metadata is the client's own
    and passes through untouched.
    """

    group_id: str
    member_id: str
    instance_id: str | None
    protocol_type: str
    protocols: Mapping[str, bytes]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    client_id: str
    client_host: str


class JoinResultMember(NamedTuple):
    """What the leader is told of a member."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """A member's place in a generation. `members` is empty for all but the leader.

    `skip_assignment`: the leader is given the members, yet the assignment in force stays.
    """

    generation: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    member_id: str
    members: list[JoinResultMember]
    skip_assignment: bool = False


class SyncResult(NamedTuple):
    """A member's assignment, as its leader made it; empty when the leader gave it none."""

    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes


class LeavingMember(NamedTuple):
    """One member of a request to leave; an empty `member_id` with an `instance_id` removes whoever
    holds that instance.
    """

    member_id: str
    instance_id: str | None = None


class ClassicGroupMember:
    """One member. What it supports and waits for is changed only by its `ClassicGroup`, which counts both."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "join_promise",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
        "sync_promise",
    )

    def __init__(self, member_id: str, joining: JoinRequest, session: LazyTimer) -> None:
        self.member_id = member_id
        self.instance_id = joining.instance_id
        self.client_id = joining.client_id
        self.client_host = joining.client_host
        self.protocols = dict(joining.protocols)
        self.rebalance_timeout_ms = joining.rebalance_timeout_ms
        self.session_timeout_ms = joining.session_timeout_ms
        self.session = session
        self.assignment = b""
        self.is_new = False
        self.join_promise: Promise[JoinResult] | None = None
        self.sync_promise: Promise[SyncResult] | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_excused(self) -> bool:
        """Waits for us, so its silence is no sign of death. A newcomer does not know its id yet, so
        it has to come back in time.
        """
        return not self.is_new and (self.join_promise is not None or self.sync_promise is not None)

    def supports(self, protocols: Mapping[str, bytes]) -> bool:
        """Whether these are exactly the member's protocols: same names, order and metadata."""
        return list(self.protocols.items()) == list(protocols.items())

    def vote(self, candidates: Collection[str]) -> str:
        """The member's favourite among `candidates`, all of which it supports."""
        return next(name for name in self.protocols if name in candidates)

    def metadata(self, protocol: str | None) -> bytes:
        """What the member said with this protocol; empty when the group has none."""
        return self.protocols[protocol] if protocol is not None else b""
