"""Errors of share groups that clients get; each is one of Kafka's error codes."""

from __future__ import annotations

from kqueue.base.errors import KqueueError, RequestRefused


class InvalidRecordState(RequestRefused):
    """A record of a share group is not acquired, or not by this member."""


class ShareSessionNotFound(RequestRefused):
    """No such share session: the member must start with epoch 0."""


class InvalidShareSessionEpoch(RequestRefused):
    """The share session expects another epoch."""


class ShareSessionLimitReached(RequestRefused):
    """There are as many share sessions as allowed."""


class NoShareState(KqueueError):
    """A share partition has no state: no member of its group has had a heartbeat that names its
    topic. Kafka has no code of its own for it.
    """
