"""Settings of a cluster and of its replicas. Source: Kafka's ReplicationConfigs, KRaftConfigs,
ServerConfigs.

`kqueue.cluster.store` makes a broker the member of a cluster. All others have no effect on a broker
that is in none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kqueue.base.config import Config, TopicConfig
from kqueue.base.settings import (
    ANY,
    LONG_MAX,
    MiB,
    Scope,
    Setting,
    SettingType,
    UpdateMode,
    Validator,
    at_least,
    between,
    one_of,
)

CLUSTER_STORE = "kqueue.cluster.store"
SQLITE_STORE = "sqlite:"
ZOOKEEPER_STORE = "zookeeper:"
POSTGRES_STORE = "postgres"
"""The beginning of an address. One that goes on in a wrong way is not shown: it may have a
password.
"""
POSTGRES_PASSWORD = "kqueue.postgres.password"
ZOOKEEPER_USER = "kqueue.zookeeper.user"
ZOOKEEPER_PASSWORD = "kqueue.zookeeper.password"
ZOOKEEPER_TLS = "zookeeper.ssl.client.enable"
GIVEN_STORE = "memory"
INTER_BROKER_LISTENER = "inter.broker.listener.name"
INTER_BROKER_PROTOCOL = "security.inter.broker.protocol"
INTER_BROKER_MECHANISM = "sasl.mechanism.inter.broker.protocol"
LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def _is_store(value: str) -> bool:
    return value == GIVEN_STORE or any(
        value.startswith(kind) and len(value) > len(kind) for kind in (SQLITE_STORE, ZOOKEEPER_STORE, POSTGRES_STORE)
    )


def _row(
    name: str,
    kind: SettingType,
    default: Any,
    valid: Validator,
    doc: str,
    dynamic: UpdateMode = UpdateMode.READ_ONLY,
) -> Setting:
    return Setting(name, kind, default, valid, Scope.BROKER, doc, dynamic=dynamic, cluster_only=True)


ZOOKEEPER_STORES = {
    "keystore": "this broker's key and certificate, for servers that ask for one",
    "truststore": "the authorities of the servers' certificates. Unset: those of the system",
}
ZOOKEEPER_TLS_ROWS = (
    *(
        row
        for store, what in ZOOKEEPER_STORES.items()
        for row in (
            _row(f"zookeeper.ssl.{store}.location", SettingType.STRING, None, ANY, f"File with {what}."),
            _row(
                f"zookeeper.ssl.{store}.type",
                SettingType.STRING,
                None,
                ANY,
                f"Type of zookeeper.ssl.{store}.location: PEM or PKCS12. Unset: PEM if its name ends with .pem.",
            ),
            _row(f"zookeeper.ssl.{store}.password", SettingType.PASSWORD, None, ANY, f"Password of the {store}."),
        )
    ),
    _row(
        "zookeeper.ssl.endpoint.identification.algorithm",
        SettingType.STRING,
        "HTTPS",
        ANY,
        "Whether certificates of ZooKeeper's servers must name the host that was connected to; empty: they need not.",
    ),
)

SETTINGS: tuple[Setting, ...] = (
    Setting(
        CLUSTER_STORE,
        SettingType.STRING,
        None,
        Validator(
            "sqlite:PATH, zookeeper:HOST:PORT[,HOST:PORT...][/CHROOT], postgresql://[USER@]HOST[:PORT]/DATABASE, "
            "or memory",
            _is_store,
        ),
        Scope.BROKER,
        "Store of the metadata that the brokers of a cluster share; it makes this broker a member. sqlite: a file, "
        "for several processes of one machine. zookeeper and postgresql: for several machines; the latter is a "
        "connection URI of libpq without a password, with ?schema=NAME for a schema other than kqueue. memory: one "
        "that a program passes to its brokers. Each broker needs a node.id of its own. Unset: a single broker, with "
        "the metadata of kqueue.metadata.",
    ),
    _row(
        "broker.session.timeout.ms",
        SettingType.INT,
        9000,
        at_least(1),
        "Time without a sign of life after which a broker is fenced: it leads nothing, and others are elected.",
    ),
    _row(
        "broker.heartbeat.interval.ms",
        SettingType.INT,
        2000,
        at_least(1),
        "Interval between signs of life of this broker, shorter than a third of broker.session.timeout.ms.",
    ),
    _row(
        "replica.lag.time.max.ms",
        SettingType.LONG,
        30_000,
        between(1, LONG_MAX),
        "Time after which a follower that has not reached the leader's log end leaves the in-sync replicas.",
    ),
    _row(
        "replica.fetch.max.bytes",
        SettingType.INT,
        1 * MiB,
        at_least(0),
        "Bytes of records that a follower requests of one partition. A larger first batch is sent whole.",
    ),
    _row(
        "replica.fetch.min.bytes",
        SettingType.INT,
        1,
        at_least(0),
        "Bytes for which a follower's request waits, at most for replica.fetch.wait.max.ms.",
    ),
    _row(
        "replica.fetch.response.max.bytes",
        SettingType.INT,
        10 * MiB,
        at_least(0),
        "Bytes of records that a follower requests of all partitions at once.",
    ),
    _row(
        "replica.fetch.wait.max.ms",
        SettingType.INT,
        500,
        at_least(1),
        "Longest wait of a follower's request for new records. Shorter than replica.lag.time.max.ms.",
    ),
    _row(
        "replica.fetch.backoff.ms",
        SettingType.INT,
        1000,
        at_least(0),
        "Pause of a follower after a failed request, or before the next try of a partition that failed.",
    ),
    _row(
        "leader.replication.throttled.rate",
        SettingType.LONG,
        LONG_MAX,
        at_least(0),
        "Bytes per second that this broker sends at most, as leader, to the replicas out of sync that "
        "leader.replication.throttled.replicas of their topics name.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _row(
        "follower.replication.throttled.rate",
        SettingType.LONG,
        LONG_MAX,
        at_least(0),
        "Bytes per second that this broker fetches at most, as follower, for its replicas out of sync that "
        "follower.replication.throttled.replicas of their topics name.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _row(
        "replica.selector.class",
        SettingType.STRING,
        None,
        Validator("a replica selector of Kafka", lambda name: name in (LEADER_SELECTOR, RACK_AWARE_SELECTOR)),
        "Which replica consumers read. Unset, or LeaderSelector: the leader. RackAwareReplicaSelector: an in-sync "
        "follower of the consumer's client.rack, where the leader is in another rack.",
    ),
    _row(
        "num.replica.fetchers",
        SettingType.INT,
        1,
        at_least(1),
        "Connections over which this broker copies partitions from each other broker.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _row(
        INTER_BROKER_LISTENER,
        SettingType.STRING,
        None,
        ANY,
        "Listener at which brokers reach each other. Unset: the one with the name of "
        "security.inter.broker.protocol if that is set, else the first of listeners.",
    ),
    _row(
        POSTGRES_PASSWORD,
        SettingType.PASSWORD,
        None,
        ANY,
        "Password of the user that kqueue.cluster.store=postgresql://USER@... names. Unset: libpq looks for one in "
        "PGPASSWORD and in the file of passfile or PGPASSFILE.",
    ),
    _row(
        ZOOKEEPER_USER,
        SettingType.STRING,
        None,
        Validator("a name without a colon", lambda value: bool(value) and ":" not in value),
        "User of ZooKeeper's scheme digest, with kqueue.cluster.store=zookeeper:... This user alone may use the nodes "
        "that brokers create. Unset: everybody who reaches ZooKeeper may.",
    ),
    _row(
        ZOOKEEPER_PASSWORD,
        SettingType.PASSWORD,
        None,
        ANY,
        "Password of kqueue.zookeeper.user. It is sent to ZooKeeper in clear, unless with TLS.",
    ),
    _row(
        ZOOKEEPER_TLS,
        SettingType.BOOLEAN,
        False,
        ANY,
        "Whether to connect to ZooKeeper by TLS; kqueue.cluster.store then names the servers' secureClientPort.",
    ),
    *ZOOKEEPER_TLS_ROWS,
    _row(
        INTER_BROKER_PROTOCOL,
        SettingType.STRING,
        "PLAINTEXT",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "Name of the listener at which brokers reach each other, if it has the name of its protocol. Set this, or "
        "inter.broker.listener.name.",
    ),
    _row(
        INTER_BROKER_MECHANISM,
        SettingType.STRING,
        "GSSAPI",
        ANY,
        "SASL mechanism with which this broker authenticates to others, if their listener has SASL: PLAIN, "
        "SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER. User and password are options of the listener's "
        "sasl.jaas.config for it; of OAUTHBEARER see sasl.oauthbearer.token.endpoint.url. "
        "Kafka's default, GSSAPI, is not supported.",
    ),
    _row(
        "auto.leader.rebalance.enable",
        SettingType.BOOLEAN,
        True,
        ANY,
        "Whether the controller gives leadership back to the first replica of each partition.",
    ),
    _row(
        "leader.imbalance.check.interval.seconds",
        SettingType.LONG,
        300,
        between(1, LONG_MAX // 1000),
        "Interval at which the controller looks for partitions that the first replica does not lead.",
    ),
    _row(
        "controlled.shutdown.enable",
        SettingType.BOOLEAN,
        True,
        ANY,
        "Whether a stop first lets other brokers take the leaderships, for at most kqueue.stop.timeout.ms.",
    ),
)


class ThrottledSide(NamedTuple):
    """The side of copying whose rate is bounded.

    Attributes:
        rate: name of the broker's setting, bytes per second.
        replicas: name of the topic's setting, which of its replicas.
    """

    rate: str
    replicas: str


LEADER_SIDE = ThrottledSide("leader.replication.throttled.rate", "leader.replication.throttled.replicas")
FOLLOWER_SIDE = ThrottledSide("follower.replication.throttled.rate", "follower.replication.throttled.replicas")


class FetcherConfig(NamedTuple):
    """Settings of the replica fetchers.

    Attributes:
        fetchers: connections to each other broker.
        partition_bytes, response_bytes: bounds on the records of one partition, and of all.
        min_bytes, wait_ms: how much a request waits for, and how long.
        backoff_ms: pause after an error.
    """

    fetchers: int
    partition_bytes: int
    response_bytes: int
    min_bytes: int
    wait_ms: int
    backoff_ms: int

    @classmethod
    def of(cls, config: Config) -> FetcherConfig:
        """Return the present values."""
        return cls(
            config["num.replica.fetchers"],
            config["replica.fetch.max.bytes"],
            config["replica.fetch.response.max.bytes"],
            config["replica.fetch.min.bytes"],
            config["replica.fetch.wait.max.ms"],
            config["replica.fetch.backoff.ms"],
        )


class MemberConfig(NamedTuple):
    """Settings of a broker as a member of its cluster.

    Attributes:
        session_timeout_ms, heartbeat_interval_ms: of its session with the store.
        lag_max_ms: after which a follower is out of sync.
        leaves_in_order: whether a stop gives the leaderships to others first.
    """

    session_timeout_ms: int
    heartbeat_interval_ms: int
    lag_max_ms: int
    leaves_in_order: bool

    @classmethod
    def of(cls, config: Config) -> MemberConfig:
        """Return the present values."""
        return cls(
            config["broker.session.timeout.ms"],
            config["broker.heartbeat.interval.ms"],
            config["replica.lag.time.max.ms"],
            config["controlled.shutdown.enable"],
        )


class RebalanceConfig(NamedTuple):
    """Whether, and every how many ms, the controller elects preferred leaders."""

    is_on: bool
    interval_ms: int

    @classmethod
    def of(cls, config: Config) -> RebalanceConfig:
        """Return the present values."""
        interval_s: int = config["leader.imbalance.check.interval.seconds"]
        return cls(config["auto.leader.rebalance.enable"], interval_s * 1000)


class TopicReplication(NamedTuple):
    """Settings of a topic's replicas.

    Attributes:
        min_insync: in-sync replicas without which nothing is committed.
        unclean: whether a replica that may lack committed records may lead.
    """

    min_insync: int
    unclean: bool

    @classmethod
    def of(cls, config: TopicConfig) -> TopicReplication:
        """Return the present values."""
        return cls(config["min.insync.replicas"], config["unclean.leader.election.enable"])
