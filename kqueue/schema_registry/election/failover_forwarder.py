"""`FailoverForwarder`: sends changes to the next leader when the one that is known has ended."""

from __future__ import annotations

from kqueue.schema_registry.election.election_member import ElectionMember
from kqueue.schema_registry.election.settled_leadership import WAIT_S
from kqueue.schema_registry.forwarding import LeaderGone
from kqueue.schema_registry.rest.contract import ForwardedAnswer, ForwardedRequest, Forwarder


class FailoverForwarder:
    """The `Forwarder` of a registry with others. Between two heartbeats a member does not know that
    the leader has left the group: when nothing listens there any more, it asks at once.
    """

    def __init__(self, inner: Forwarder, member: ElectionMember, wait_s: float = WAIT_S) -> None:
        self._inner = inner
        self._member = member
        self._wait_s = wait_s

    def forward(self, leader_url: str, request: ForwardedRequest) -> ForwardedAnswer:
        """See `Forwarder`."""
        try:
            return self._inner.forward(leader_url, request)
        except LeaderGone:
            self._member.wake()
            next_url = self._member.next_leader_url(leader_url, self._wait_s)
            if next_url is None:
                raise
        return self._inner.forward(next_url, request)  # to this registry itself, if it was elected
