"""Errors of groups that clients get; each is one of Kafka's error codes."""

from __future__ import annotations

from kqueue.base.errors import RequestRefused


class InvalidGroupId(RequestRefused):
    """An empty group id where a group is needed."""


class NonEmptyGroup(RequestRefused):
    """The group has members."""


class GroupSubscribedToTopic(RequestRefused):
    """Members of the group read the topic, so its offsets can't be deleted."""


class FencedMemberEpoch(RequestRefused):
    """The member's epoch is not the coordinator's: it must give up its partitions and rejoin."""


class UnreleasedInstanceId(RequestRefused):
    """Another member holds the instance id, and has not left."""


class UnsupportedAssignor(RequestRefused):
    """The broker has no assignor of this name."""


class InvalidRegularExpression(RequestRefused):
    """A pattern of topic names is malformed, or too large."""


class InvalidSessionTimeout(RequestRefused):
    """Outside `group.min/max.session.timeout.ms`."""


class InvalidCommitOffsetSize(RequestRefused):
    """An offset that would exceed the memory limit of all offsets, or whose record is too large."""


class OffsetMetadataTooLarge(RequestRefused):
    """Commit metadata above `offset.metadata.max.bytes`."""


def check_named(group_id: str) -> None:
    """Raise InvalidGroupId if the id of a group is empty."""
    if not group_id:
        raise InvalidGroupId("a group id must not be empty")
