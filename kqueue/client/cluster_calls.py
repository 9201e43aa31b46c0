"""The calls of `Client` about a cluster: its brokers, leaders and replicas, and its users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kqueue.client.calls.acls import CreateAcls, DeleteAcls, DescribeAcls
from kqueue.client.calls.api_versions import DescribeApis
from kqueue.client.calls.describe_cluster import ClusterDescription, DescribeCluster
from kqueue.client.calls.describe_log_dirs import DescribeLogDirs, LogDir
from kqueue.client.calls.elect_leaders import ElectionType, ElectLeaders
from kqueue.client.calls.quotas import (
    AlterQuotas,
    DescribeQuotas,
    QuotaAlteration,
    QuotaEntry,
    QuotaMatch,
)
from kqueue.client.calls.reassignments import AlterReassignments, ListReassignments, Reassignment, Refusal
from kqueue.client.calls.scram_users import AlterScramUser, DescribeScramUsers, SaltedPassword
from kqueue.client.calls.unregister_broker import UnregisterBroker
from kqueue.client.routing import Router
from kqueue.client.topic_partition import TopicPartition
from kqueue.client_protocol.versions import Versions
from kqueue.security.acls import AclBinding, AclFilter


class ClusterCalls:
    """`Client.cluster`: brokers, leaders and replicas, and who may do what."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def api_versions(self, *, timeout_ms: int | None = None) -> dict[int, Versions]:
        """Return the lowest and highest version of each API that a broker serves, by key."""
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_any(DescribeApis(), deadline)

    def describe(self, *, timeout_ms: int | None = None) -> ClusterDescription:
        """Return the brokers, fenced ones too. Raises: IncompatibleBroker: before Kafka 2.8."""
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_any(DescribeCluster(), deadline)

    def log_dirs(
        self, node_id: int, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> list[LogDir]:
        """Return the data folders of one broker. `partitions`: None: all.

        Raises: BrokerRefused: the client may not describe the cluster. ClientError: also if the
            cluster has no such broker.
        """
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_node(node_id, DescribeLogDirs(partitions), deadline)

    def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        election_type: ElectionType = ElectionType.PREFERRED,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, Refusal]:
        """Have leaders elected; return the outcome of each partition, code 0: done.

        Args:
            partitions: None: all; then the result has only those that needed an election.
        """
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_controller(ElectLeaders(election_type, partitions, deadline), deadline)

    def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, Refusal]:
        """Begin to move partitions to other replicas, or cancel it (None); return what is refused.

        Raises: ClientError: of the whole request. The moves go on after this call: see
            `reassignments`.
        """
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_controller(AlterReassignments(targets, deadline), deadline)

    def reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Return the partitions that are being moved. `partitions`: None: all."""
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_controller(ListReassignments(partitions, deadline), deadline)

    def unregister_broker(self, node_id: int, *, timeout_ms: int | None = None) -> None:
        """Remove a broker that is gone for good. Raises: BrokerRefused: it is unknown, or runs."""
        with self._router.call(timeout_ms) as deadline:
            self._router.send_to_controller(UnregisterBroker(node_id), deadline)

    def alter_quotas(
        self, alterations: Sequence[QuotaAlteration], *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> list[Refusal]:
        """Set and remove quotas; return the outcome of each entity, code 0: done."""
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_any(AlterQuotas(alterations, validate_only=validate_only), deadline)

    def describe_quotas(
        self, matches: Sequence[QuotaMatch] = (), *, strict: bool = False, timeout_ms: int | None = None
    ) -> list[QuotaEntry]:
        """Return the entities that have all types of `matches`, and no other if `strict`."""
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_any(DescribeQuotas(matches, strict=strict), deadline)

    def create_acls(self, entries: Sequence[AclBinding], *, timeout_ms: int | None = None) -> list[Refusal]:
        """Create ACLs; return the outcome of each, in order, code 0: created, or there already."""
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_any(CreateAcls(entries), deadline)

    def describe_acls(
        self, entry_filter: AclFilter | None = None, *, timeout_ms: int | None = None
    ) -> list[AclBinding]:
        """Return the ACLs that a filter finds; None: all. Raises: BrokerRefused: the cluster has no
        authorizer, or the client may not see ACLs.
        """
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_any(DescribeAcls(entry_filter or AclFilter()), deadline)

    def delete_acls(self, filters: Sequence[AclFilter], *, timeout_ms: int | None = None) -> list[AclBinding]:
        """Delete the ACLs that filters find, and return them. Raises: BrokerRefused."""
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_any(DeleteAcls(filters), deadline)

    def scram_users(
        self, users: Iterable[str] = (), *, timeout_ms: int | None = None
    ) -> dict[str, Mapping[int, int] | Refusal]:
        """Return the iterations of each user's SCRAM credentials by Kafka's number of the
        mechanism; a user without any: why. `users`: empty: all that have some.
        """
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_any(DescribeScramUsers(users), deadline)

    def set_scram_password(self, user: str, password: SaltedPassword, *, timeout_ms: int | None = None) -> None:
        """Set a user's password for one mechanism. Raises: BrokerRefused."""
        with self._router.call(timeout_ms) as deadline:
            self._router.send_to_controller(AlterScramUser(user, password), deadline)

    def remove_scram_password(self, user: str, mechanism: int, *, timeout_ms: int | None = None) -> None:
        """Remove a user's credential. Raises: BrokerRefused: the user has none, among others."""
        with self._router.call(timeout_ms) as deadline:
            self._router.send_to_controller(AlterScramUser(user, mechanism), deadline)
