"""Turns classic groups into consumer groups and back, with their members and offsets.

A member of the new protocol that joins a classic group of consumers makes it a consumer group, in
which the others go on as classic members (`consumer/classic_members`). When the last member of the
new protocol has left, the group is a classic one again.

Source: KIP-848, Kafka GroupMetadataManager.

Crash: the tombstones of one type and the records of the other are one append, unless they are many;
a replay that finds both keeps the classic group.
"""

from __future__ import annotations

from collections.abc import MutableMapping

from kqueue.base.clock import Clock
from kqueue.base.errors import GroupIdNotFound, MalformedMessage, RebalanceInProgress
from kqueue.groups.classic.group import ClassicGroup
from kqueue.groups.classic.membership_manager import MembershipManager
from kqueue.groups.classic.rebalancer import Rebalancer
from kqueue.groups.classic.state import ClassicGroupState, GroupEvent
from kqueue.groups.config import GroupConfig
from kqueue.groups.consumer.embedded_protocol import assignment_bytes, read_assignment, read_subscription
from kqueue.groups.consumer.group import ConsumerGroup
from kqueue.groups.consumer.member import ClassicProtocols, ConsumerGroupMember, Subscription
from kqueue.groups.group import Group
from kqueue.groups.limits import GroupLimits
from kqueue.groups.log import records
from kqueue.groups.log.changes import Changes
from kqueue.groups.log.schemas import CONSUMER_PROTOCOL, GroupMetadataValue, MemberMetadata
from kqueue.groups.modern.assignment import CurrentAssignment
from kqueue.groups.modern.group import FIRST_EPOCH
from kqueue.groups.modern.records import GroupEpoch
from kqueue.groups.modern.state import ModernGroupState
from kqueue.groups.modern.topics import TopicsMetadata, metadata_hash


class GroupConversion:
    """Conversions of one coordinator's groups. On the owner thread."""

    def __init__(
        self,
        config: GroupConfig,
        groups: MutableMapping[str, Group],
        membership: MembershipManager,
        rebalancer: Rebalancer,
        limits: GroupLimits,
        topics: TopicsMetadata,
        clock: Clock,
    ) -> None:
        self._config = config
        self._groups = groups
        self._membership = membership
        self._rebalancer = rebalancer
        self._limits = limits
        self._topics = topics
        self._clock = clock

    # --- classic to consumer

    def to_consumer(self, changes: Changes, group: Group) -> ConsumerGroup:
        """Replace a classic group by a consumer group with its members; offsets stay.

        Raises: GroupIdNotFound: the policy forbids it, or the members are no consumers.
        """
        converted = ConsumerGroup(group.group_id, self._limits)
        classic = self.remove_classic(changes, group)
        if not classic.is_empty:
            self._check_upgrade(classic)
            self._put_members(changes, classic, converted)
        self._groups[group.group_id] = converted

        def undo() -> None:
            converted.stop_timers()
            group.put_back(self._groups)

        changes.add_unlogged(undo)
        return converted

    def remove_classic(self, changes: Changes, group: Group) -> ClassicGroup:
        """Remove a classic group from the log, for one of another type that keeps its offsets.
        Returns it.
        """
        assert isinstance(group, ClassicGroup)  # its type says so: managers convert no others
        group.remove_records(changes)
        changes.on_committed.append(lambda: self._retire(group))
        return group

    def _check_upgrade(self, group: ClassicGroup) -> None:
        if (
            not (self._config.can_upgrade and group.is_consumer)
            or len(group.members) >= self._config.consumer.members_max
        ):
            raise GroupIdNotFound(f"Group {group.group_id} is not a consumer group.")

    def _put_members(self, changes: Changes, group: ClassicGroup, converted: ConsumerGroup) -> None:
        epoch = max(group.generation, FIRST_EPOCH)
        targets = {}
        try:
            for member_id, member in group.members.items():
                first = next(iter(member.protocols.values()))
                read = read_subscription(member.protocols.get(group.protocol_name or "", first))
                classic = ClassicProtocols(member.session_timeout_ms, tuple(member.protocols.items()))
                subscription = Subscription(
                    member.instance_id,
                    read.rack_id,
                    member.client_id,
                    member.client_host,
                    read.topics,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    classic=classic,
                )
                converted.put_metadata(changes, member_id, subscription)
                targets[member_id] = read_assignment(member.assignment, self._topics)
        except MalformedMessage:
            raise GroupIdNotFound(f"Group {group.group_id} is not a consumer group.") from None
        converted.set_epoch(changes, GroupEpoch(epoch, metadata_hash(converted.subscribed_topics(), self._topics)))
        taken: set[tuple[bytes, int]] = set()
        for member_id, target in targets.items():
            # An assignor of clients may give a partition to two members: the first one has it.
            mine = {(topic, index) for topic, indexes in target.items() for index in indexes} - taken
            taken |= mine
            assigned: dict[bytes, dict[int, int]] = {}
            for topic, index in mine:
                assigned.setdefault(topic, {})[index] = epoch
            converted.put_target(changes, member_id, {topic: frozenset(each) for topic, each in assigned.items()})
            converted.put_current(changes, member_id, CurrentAssignment(epoch, epoch, assigned=assigned))
        converted.set_target_epoch(changes, epoch, 0)
        if group.state is not ClassicGroupState.STABLE:  # its members have not what they shall have
            converted.raise_epoch(changes)

    def _retire(self, group: ClassicGroup) -> None:
        """End a classic group that was replaced: who waits joins again."""
        if group.is_dead:
            return
        self._rebalancer.retire(group, RebalanceInProgress(f"group {group.group_id!r} is of another type now"))
        group.release()
        group.transition(GroupEvent.REMOVED, self._clock.wall_ms())

    # --- consumer to classic

    def to_classic_if_due(self, changes: Changes, group: ConsumerGroup, *, was_taken_over: bool = False) -> bool:
        """Replace a consumer group by a classic one if all of its members are classic ones.

        Args:
            was_taken_over: a classic member has what the last other one had. All may keep what they
                have, so the group rebalances only if it was not stable.
        Returns: whether it was replaced.
        """
        protocol = self._common_protocol(group)
        if protocol is None or len(group.members) > self._config.members_max:
            return False
        value = GroupMetadataValue(
            protocol_type=CONSUMER_PROTOCOL,
            generation=group.epoch,
            protocol=protocol,
            leader=next(iter(group.members)),
            current_state_timestamp=self._clock.wall_ms(),
            members=[self._member_metadata(member, protocol) for member in group.members.values()],
        )
        keeps = was_taken_over and group.state is ModernGroupState.STABLE
        classic = self._membership.restore(group.group_id, value)
        group.remove_records(changes)
        self._groups[group.group_id] = classic

        def undo() -> None:
            classic.release()
            group.put_back(self._groups)

        changes.add(records.group_key(group.group_id), records.group_value(value), undo)

        def started() -> None:
            group.release()
            self._membership.resume(classic)
            if not keeps and classic.members and classic.state is ClassicGroupState.STABLE:
                self._rebalancer.prepare_rebalance(classic)

        changes.on_committed.append(started)
        return True

    def _common_protocol(self, group: ConsumerGroup) -> str | None:
        """Return a protocol that all members support, if all are classic and the policy allows."""
        common: list[str] | None = None
        for member in group.members.values():
            classic = member.metadata.classic
            if classic is None:
                return None
            names = [name for name, _ in classic.protocols]
            common = names if common is None else [name for name in common if name in names]
        return common[0] if common and self._config.can_downgrade else None

    def _member_metadata(self, member: ConsumerGroupMember, protocol: str) -> MemberMetadata:
        subscription = member.metadata
        assert subscription.classic is not None
        metadata = dict(subscription.classic.protocols)[protocol]
        return MemberMetadata(
            member_id=member.member_id,
            group_instance_id=subscription.instance_id,
            client_id=subscription.client_id,
            client_host=subscription.client_host,
            rebalance_timeout=subscription.rebalance_timeout_ms,
            session_timeout=subscription.classic.session_timeout_ms,
            subscription=metadata,
            assignment=assignment_bytes(read_subscription(metadata).version, member.current.assigned, self._topics),
        )
