"""The checks of who may fetch the offsets of a modern group. Source: Kafka ConsumerGroup,
StreamsGroup.
"""

from __future__ import annotations

from typing import Any

from kqueue.base.errors import StaleMemberEpoch
from kqueue.groups.modern.group import ModernGroup


def check_fetch(group: ModernGroup[Any, Any], member_id: str | None, epoch: int) -> None:
    """Check the member epoch of a fetch of offsets. Raises: UnknownMember, StaleMemberEpoch."""
    if member_id is None and epoch < 0:
        return
    current = group.check_member(member_id or "").current
    if epoch != current.epoch:
        raise StaleMemberEpoch(
            f"member {member_id!r} of group {group.group_id!r} has epoch {current.epoch}, the request has {epoch}"
        )
