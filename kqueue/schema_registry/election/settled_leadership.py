"""`SettledLeadership`: what requests ask, which wait for the end of an election."""

from __future__ import annotations

import threading

from kqueue.schema_registry.election.election_member import ElectionMember

WAIT_S = 5.0
WAITING_MAX = 10
"""Requests that wait at a time, of the threads that serve all requests: reads go on beside them."""


class SettledLeadership:
    """The `Leadership` of a registry with others. While none leads, because a registry has joined
    or ended, a few requests wait for a moment instead of failing. Thread: any.
    """

    def __init__(self, member: ElectionMember, wait_s: float = WAIT_S) -> None:
        self._member = member
        self._wait_s = wait_s
        self._waiting = threading.Semaphore(WAITING_MAX)

    def is_leader(self) -> bool:
        """Whether this registry writes now, or as soon as it is known."""
        if self._member.is_leader():
            return True
        if self._waiting.acquire(blocking=False):
            try:
                self._member.wait_until_settled(self._wait_s)
            finally:
                self._waiting.release()
        return self._member.is_leader()

    def leader_url(self) -> str | None:
        """The URL of the registry that was named; None: there is none."""
        return self._member.leader_url()
