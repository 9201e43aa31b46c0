"""Errors of elections and reassignments that clients ask for; each has a code of the protocol."""

from __future__ import annotations

from kqueue.base.errors import RequestRefused


class NoReassignmentInProgress(RequestRefused):
    """No reassignment of the partition is in progress."""


class ElectionNotNeeded(RequestRefused):
    """The partition has the leader already that was asked for."""


class PreferredLeaderNotAvailable(RequestRefused):
    """The preferred leader is not in sync, or its broker is fenced."""


class EligibleLeadersNotAvailable(RequestRefused):
    """No replica can become leader."""


class NotEnoughReplicasAfterAppend(RequestRefused):
    """The records were appended, but too few replicas are in sync to commit them."""
