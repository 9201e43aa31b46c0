"""The brokers of the cluster, as this one sees them. A single broker sees itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from kqueue.base.config import Config
from kqueue.base.errors import StorageFailed
from kqueue.base.version import __version__
from kqueue.broker.metadata.identity import BrokerIdentity
from kqueue.replication.config import INTER_BROKER_LISTENER, INTER_BROKER_PROTOCOL
from kqueue.replication.registrations import NO_LEADER, BrokerRegistration, Endpoint

BrokerChanged = Callable[[int], None]
BROKERS_CHANGED = "brokers changed"
"""Key of the purgatory, woken after a broker registered, changed or was removed."""


class Cluster(Protocol):
    """The cluster as handlers and replicas ask for it.

    Thread: the owner's. Between two turns of it the answers may change; see `observe`.
    """

    @property
    def node_id(self) -> int:
        """The id of this broker."""
        ...

    @property
    def is_alone(self) -> bool:
        """Whether this broker is in no cluster: it has each partition's only replica."""
        ...

    @property
    def controller_id(self) -> int:
        """The node id of the controller; `NO_LEADER`: none is known."""
        ...

    @property
    def controller_epoch(self) -> int:
        """The epoch of the controller's term; of a single broker 0."""
        ...

    def brokers(self) -> list[BrokerRegistration]:
        """Return the brokers that are not fenced, by id."""
        ...

    def all(self) -> list[BrokerRegistration]:
        """Return all registered brokers, by id."""
        ...

    def find(self, node_id: int) -> BrokerRegistration | None:
        """Return a registered broker, which may be fenced; None: there is none of this id."""
        ...

    def endpoint(self, node_id: int, listener: str) -> Endpoint | None:
        """Return where a broker's listener of this name is reached; None: no such broker or
        listener.
        """
        ...

    def observe(self, changed: BrokerChanged) -> None:
        """Call `changed` with the id of each broker that registered, changed or is removed, once
        the answers say so.
        """
        ...


class Membership(Protocol):
    """The broker's part in its cluster, as the broker calls it: `kqueue.broker.member.Member`."""

    @property
    def is_unfenced(self) -> bool:
        """Whether the controller has unfenced this broker in its present session."""
        ...

    @property
    def store_error(self) -> StorageFailed | None:
        """Why the metadata store did not take the last sign of life; None: it did."""
        ...

    def begin(self) -> None:
        """Begin the session, once the metadata are loaded. Blocks.

        Raises: NodeIdInUse: another broker of this node id is alive. StorageFailed.
        """
        ...

    def start(self) -> None:
        """Give signs of life, and campaign."""
        ...

    def recovered(self) -> None:
        """Announce the broker to the others: its logs are recovered. A second call does nothing."""
        ...

    def prepare_stop(self) -> None:
        """Change nothing more in the cluster."""
        ...

    def abandon(self) -> None:
        """Give no more signs of life, and leave the session to its timeout."""
        ...


class SingleBroker:
    """Implements `Cluster` for a broker that is in none."""

    is_alone = True
    controller_epoch = 0

    def __init__(self, identity: BrokerIdentity) -> None:
        self.node_id = identity.node_id
        self._identity = identity

    @property
    def controller_id(self) -> int:
        return self.node_id

    def brokers(self) -> list[BrokerRegistration]:
        identity = self._identity
        own = BrokerRegistration(
            self.node_id, 1, "", identity.listeners, fenced=False, rack=identity.rack, release=__version__
        )
        return [own]

    def all(self) -> list[BrokerRegistration]:
        return self.brokers()

    def find(self, node_id: int) -> BrokerRegistration | None:
        return self.brokers()[0] if node_id == self.node_id else None

    def endpoint(self, node_id: int, listener: str) -> Endpoint | None:
        return Endpoint(*self._identity.endpoints(listener)) if node_id == self.node_id else None

    def observe(self, changed: BrokerChanged) -> None:
        """Nothing of a single broker changes."""


class ClusterBrokers:
    """Implements `Cluster` for a member: the registrations in the store.

    `apply` gets each record that was put or deleted.

    Args: peer_listener: see `inter_broker_listener`.
    """

    is_alone = False

    def __init__(self, node_id: int, peer_listener: str | None = None) -> None:
        self.node_id = node_id
        self._peer_listener = None if peer_listener is None else peer_listener.upper()
        self.controller_id = NO_LEADER
        self.controller_epoch = 0
        self._brokers: dict[int, BrokerRegistration] = {}
        self._observers: list[BrokerChanged] = []

    @classmethod
    def of(cls, node_id: int, config: Config) -> ClusterBrokers:
        """Return those that the broker of this id and its settings sees."""
        return cls(node_id, inter_broker_listener(config))

    def brokers(self) -> list[BrokerRegistration]:
        return [broker for broker in self.all() if not broker.fenced]

    def all(self) -> list[BrokerRegistration]:
        return [self._brokers[node_id] for node_id in sorted(self._brokers)]

    def find(self, node_id: int) -> BrokerRegistration | None:
        return self._brokers.get(node_id)

    def endpoint(self, node_id: int, listener: str) -> Endpoint | None:
        broker = self._brokers.get(node_id)
        return None if broker is None else broker.endpoints.get(listener)

    def peer_endpoint(self, node_id: int) -> Endpoint | None:
        """Return where other brokers reach a broker, at its `inter_broker_listener`; None: no such
        broker or listener.
        """
        broker = self._brokers.get(node_id)
        if broker is None:
            return None
        listener = self._peer_listener or next(iter(broker.endpoints), "")
        return broker.endpoints.get(listener)

    def observe(self, changed: BrokerChanged) -> None:
        self._observers.append(changed)

    def apply(self, records: Mapping[str, bytes | None]) -> None:
        """Take over changed records.

        Args: records: by node id as text; None: the broker is unregistered.
        Raises: StorageFailed: one is damaged. Those before it are taken over.
        """
        changed = []
        for text, record in records.items():
            node_id = int(text)
            if record is None:
                self._brokers.pop(node_id, None)
            else:
                self._brokers[node_id] = BrokerRegistration.from_bytes(node_id, record)
            changed.append(node_id)
        for observer in self._observers:
            for node_id in changed:
                observer(node_id)


def inter_broker_listener(config: Config) -> str | None:
    """Return the name of the listener at which brokers reach each other; None: their first."""
    name: str | None = config[INTER_BROKER_LISTENER]
    if name is None and config.is_set(INTER_BROKER_PROTOCOL):
        name = config[INTER_BROKER_PROTOCOL]
    return None if name is None else name.upper()
