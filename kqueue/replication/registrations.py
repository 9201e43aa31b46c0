"""The metadata store's values for brokers, topics and partitions, and their text.

    /brokers/<id>    the fields of `BrokerRegistration` but the id, as a JSON object
    /topics/<name>   {"id", "configs", "partitions": [[...], ...]}

A partition is a list of `replicas, isr, leader, leader_epoch, partition_epoch`; where they differ
from their defaults, an object with the other fields of `PartitionRegistration` follows. A topic of
a node that is no cluster has a number of partitions instead of their list. Source: KIP-631,
KIP-841, KIP-966; Kafka's BrokerRegistration, PartitionRegistration.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from kqueue.base.errors import StorageFailed
from kqueue.base.names import parse_uuid, uuid_text

BROKERS_PREFIX = "/brokers/"
TOPICS_PREFIX = "/topics/"
NO_LEADER = -1
_OPTIONAL = ("elr", "last_known_elr", "adding", "removing")


class Endpoint(NamedTuple):
    """The address of a broker's listener."""

    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


class BrokerRegistration(NamedTuple):
    """A broker.

    Attributes:
        epoch: broker epoch (BE), raised at each registration, from 1.
        incarnation: a random text of the process that registered.
        fenced: it leads nothing and belongs to no in-sync set. True until its first unfencing.
        shutting_down: it asks to be relieved of its leaderships.
        clean: nothing that its logs confirmed can be missing: see `broker.cluster.registration`.
            A later registration keeps False; the controller sets True when it unfences.
        rack: None: not set.
        endpoints: by name of the listener.
        release: version of kqueue.
        outdated: its logs lack records that they had, as those of an older copy or of an empty disk
            do; one that is not clean, and not outdated, was killed before it had flushed. The
            controller sets False when it unfences.
        directories: ids of the data folders that it can use.
        features: the lowest and highest level that it supports, by feature; one that is not named
            it does not support. Empty: it does not say.
    """

    id: int
    epoch: int
    incarnation: str
    endpoints: Mapping[str, Endpoint]
    fenced: bool = True
    shutting_down: bool = False
    clean: bool = True
    rack: str | None = None
    release: str = ""
    directories: tuple[str, ...] = ()
    features: Mapping[str, tuple[int, int]] = {}
    outdated: bool = False

    @property
    def is_active(self) -> bool:
        """Whether it may lead partitions and receive replicas' leaderships."""
        return not self.fenced and not self.shutting_down

    def to_bytes(self) -> bytes:
        """Return the record for the store."""
        values: dict[str, Any] = self._asdict()
        del values["id"]
        if not self.outdated:
            del values["outdated"]  # an earlier kqueue refuses fields that it does not know
        return json.dumps(values, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, id: int, record: bytes) -> BrokerRegistration:
        """Read a record. Raises StorageFailed: it is damaged."""
        try:
            values = json.loads(record)
            values["endpoints"] = {name: Endpoint(*where) for name, where in values["endpoints"].items()}
            values["directories"] = tuple(values.get("directories", ()))
            features = values.get("features", {})
            values["features"] = {name: (int(lowest), int(highest)) for name, (lowest, highest) in features.items()}
            return cls(id=id, **values)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise _damaged(f"{BROKERS_PREFIX}{id}", error) from error


class PartitionRegistration(NamedTuple):
    """A partition.

    Attributes:
        replicas: node ids; the first is the preferred leader. While a reassignment runs, those of
            before and after.
        isr: in-sync replicas; in the order of `replicas`.
        leader: its node id; `NO_LEADER`: none.
        leader_epoch: LE, raised at each election, and where the set of replicas changes.
        partition_epoch: PE, raised at each change.
        elr: eligible leader replicas (KIP-966): outside of the in-sync set, and hold all that is
            committed.
        last_known_leader: who led last, while there is no leader; else -1.
        adding, removing: of a reassignment that runs.
        recovering: the leader was elected unclean, and has not confirmed yet that it cut its log.
        last_known_elr: while there is no leader, brokers that left both sets because they were
            killed before they had flushed, the latest first; behind them a last leader that is
            outdated, which is no `last_known_leader` then.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    elr: tuple[int, ...] = ()
    last_known_leader: int = NO_LEADER
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovering: bool = False
    last_known_elr: tuple[int, ...] = ()

    def to_list(self) -> list[Any]:
        """Return the record's part of this partition."""
        fields: list[Any] = [list(self.replicas), list(self.isr), self.leader, self.leader_epoch, self.partition_epoch]
        rest: dict[str, Any] = {name: list(getattr(self, name)) for name in _OPTIONAL if getattr(self, name)}
        if self.last_known_leader != NO_LEADER:
            rest["last_known_leader"] = self.last_known_leader
        if self.recovering:
            rest["recovering"] = True
        return [*fields, rest] if rest else fields

    @classmethod
    def from_list(cls, fields: list[Any]) -> PartitionRegistration:
        """Read `to_list`.

        Raises: TypeError, ValueError, KeyError: it is something else, or names a node in sync, or
            as leader, that has no replica: rules are about replicas.
        """
        replicas, isr, leader, leader_epoch, partition_epoch, *more = fields
        rest: dict[str, Any] = dict(more[0]) if more else {}
        rest.update({name: tuple(map(int, rest[name])) for name in _OPTIONAL if name in rest})
        epochs = int(leader_epoch), int(partition_epoch)
        partition = cls(tuple(map(int, replicas)), tuple(map(int, isr)), int(leader), *epochs, **rest)
        partition._check_nodes()
        return partition

    def _check_nodes(self) -> None:
        known = set(self.replicas)
        if len(known) < len(self.replicas):
            raise ValueError(f"a node is twice in replicas {list(self.replicas)}")
        for name in ("isr", "elr", "adding", "removing"):
            strange = set(getattr(self, name)) - known
            if strange:
                raise ValueError(f"{name} names {sorted(strange)}, and the replicas are {list(self.replicas)}")
        if self.leader != NO_LEADER and self.leader not in self.isr:
            raise ValueError(f"leader {self.leader} is not in the in-sync set {list(self.isr)}")


def sole_registration(node_id: int, leader_epoch: int) -> PartitionRegistration:
    """Return that of a partition whose only replica is the node."""
    return PartitionRegistration((node_id,), (node_id,), node_id, leader_epoch)


class TopicRegistration(NamedTuple):
    """A topic. `id`: 16 bytes. `configs`: its own settings, as text. `partitions`: by index."""

    id: bytes
    configs: Mapping[str, str]
    partitions: tuple[PartitionRegistration, ...]

    def to_bytes(self) -> bytes:
        """Return the record for the store."""
        partitions = [partition.to_list() for partition in self.partitions]
        values = {"id": uuid_text(self.id), "configs": dict(self.configs), "partitions": partitions}
        return json.dumps(values, separators=(",", ":")).encode()

    def to_number_bytes(self) -> bytes:
        """Return the record that a single broker stores: the partitions' number only."""
        values = {"id": uuid_text(self.id), "partitions": len(self.partitions), "configs": dict(self.configs)}
        return json.dumps(values).encode()

    @classmethod
    def from_bytes(cls, name: str, record: bytes, sole: PartitionRegistration | None = None) -> TopicRegistration:
        """Read a record.

        Args: sole: each partition of a topic whose record has a number of partitions only, which a
            node that is no cluster wrote; None: such a record is refused.
        Raises: StorageFailed: it is damaged.
        """
        try:
            values = json.loads(record)
            id, configs, partitions = parse_uuid(values["id"]), dict(values["configs"]), values["partitions"]
            if isinstance(partitions, int):
                if sole is None:
                    raise ValueError("a number of partitions, without their replicas")
                return cls(id, configs, (sole,) * partitions)
            return cls(id, configs, tuple(map(PartitionRegistration.from_list, partitions)))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _damaged(TOPICS_PREFIX + name, error) from error


class ClusterImage(NamedTuple):
    """The cluster as one broker sees it. `controller`: node id, `NO_LEADER`: none is elected."""

    brokers: Mapping[int, BrokerRegistration]
    topics: Mapping[str, TopicRegistration]
    controller: int = NO_LEADER


def _damaged(key: str, error: Exception) -> StorageFailed:
    return StorageFailed(f"the metadata store is damaged: {key} can't be read: {error!r}")
