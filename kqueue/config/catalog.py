"""Settings of the server, and `CATALOG`, the settings of all layers.

All limits are finite by default, so that no client can exhaust the broker.
"""

from __future__ import annotations

from kqueue.base.log_event import LOG_FORMAT
from kqueue.base.settings import (
    ANY,
    INT_MAX,
    LONG_MAX,
    Catalog,
    MiB,
    Prefix,
    Scope,
    Setting,
    SettingType,
    UpdateMode,
    Validator,
    at_least,
    between,
    one_of,
)
from kqueue.broker import config as broker_config
from kqueue.config import plugins
from kqueue.config.config_providers import PROVIDERS
from kqueue.config.exposure import ALLOW_INSECURE
from kqueue.config.kafka_settings import undeclared_setting
from kqueue.config.listeners import CONTROL_PLANE_LISTENER, CONTROLLER_LISTENERS, PROCESS_ROLES, PROTOCOLS
from kqueue.security import tls_config
from kqueue.security.sasl import config as sasl_config

BUFFER_SIZE = Validator("-1 (the system chooses), or at least 1024", lambda value: value == -1 or value >= 1024)

ONE_THREAD = "Accepted and shown for Kafka's tools; has no effect in kqueue: one thread serves all connections."


def _other_roles(roles: list[str]) -> list[str]:
    return [role for role in roles if role not in ("broker", "controller")]


def _row(name: str, default: int, doc: str) -> Setting:
    return Setting(
        name,
        SettingType.INT,
        default,
        at_least(1),
        Scope.BROKER,
        doc,
        without_effect=True,
        dynamic=UpdateMode.CLUSTER_WIDE,
    )


THREADS: tuple[Setting, ...] = (
    _row("num.network.threads", 3, f"Threads that read requests and write responses. {ONE_THREAD}"),
    _row("num.io.threads", 8, f"Threads that process requests; see background.threads. {ONE_THREAD}"),
)

OWN_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "listeners",
        SettingType.LIST,
        ["PLAINTEXT://localhost:9092"],
        Validator("NAME://host:port, comma separated", bool),
        Scope.BROKER,
        "Addresses on which the broker accepts clients. Port 0 binds a free port; localhost binds 127.0.0.1 and ::1, "
        "each where the machine has it; an empty host or 0.0.0.0 binds every interface. Clients of other addresses "
        "than loopback have to authenticate; see kqueue.allow.insecure.",
    ),
    Setting(
        ALLOW_INSECURE,
        SettingType.BOOLEAN,
        False,
        ANY,
        Scope.BROKER,
        "Whether the broker starts with a listener that other machines can reach and on which clients need not "
        "authenticate, neither by SASL nor by a certificate (ssl.client.auth=required).",
    ),
    Setting(
        "advertised.listeners",
        SettingType.LIST,
        None,
        Validator("NAME://host:port, comma separated", bool),
        Scope.BROKER,
        "Addresses that clients receive in Metadata responses, by listener name. A listener not named "
        "here advertises its own address. Port 0 stands for the bound port.",
    ),
    Setting(
        PROTOCOLS,
        SettingType.LIST,
        ["PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT", "SASL_SSL:SASL_SSL"],
        Validator("NAME:PROTOCOL, comma separated", bool),
        Scope.BROKER,
        "Security protocol of each listener name: PLAINTEXT, SSL (which is TLS), SASL_PLAINTEXT or SASL_SSL.",
    ),
    Setting(
        CONTROLLER_LISTENERS,
        SettingType.LIST,
        [],
        ANY,
        Scope.BROKER,
        "Names of listeners that are not opened: in Kafka only controllers and brokers connect to them, and kqueue "
        "has no controller quorum. They are not advertised either.",
    ),
    Setting(
        CONTROL_PLANE_LISTENER,
        SettingType.STRING,
        None,
        ANY,
        Scope.BROKER,
        "Name of one more listener that is not opened: Kafka with ZooKeeper had it for its controller.",
    ),
    Setting(
        PROCESS_ROLES,
        SettingType.LIST,
        [],
        Validator(
            "broker, or broker and controller",
            lambda roles: not _other_roles(roles),
            lambda roles: "String must be one of: broker, controller",
            lambda roles: _other_roles(roles)[0],
        ),
        Scope.BROKER,
        "Roles of the process in a KRaft file. There is no controller quorum: metadata are in a store "
        "(kqueue.metadata, kqueue.cluster.store). With the role controller, controller.listener.names must say which "
        "listeners are not for clients. The role controller alone serves no clients, and is refused.",
    ),
    Setting(
        PROVIDERS,
        SettingType.LIST,
        [],
        ANY,
        Scope.BROKER,
        "Names of config providers. config.providers.<name>.class is Kafka's EnvVarConfigProvider, "
        "FileConfigProvider or DirectoryConfigProvider, and config.providers.<name>.param.allowed.paths (of the "
        "first: allowlist.pattern) bounds what it reads. Values of settings then have references: ${env:VARIABLE}, "
        "${file:path:key}, ${folder:path:file}. They are read at the start.",
    ),
    Setting(
        "socket.request.max.bytes",
        SettingType.INT,
        100 * MiB,
        at_least(1024),
        Scope.BROKER,
        "Maximum size of a request. A longer one closes its connection before memory is allocated for it.",
    ),
    Setting(
        "kqueue.request.max.bytes",
        SettingType.INT,
        16 * MiB,
        at_least(1024),
        Scope.BROKER,
        "Maximum size of a request without records (all but Produce). Decoding its many small fields "
        "takes several times its size in memory.",
    ),
    Setting(
        "kqueue.request.max.items",
        SettingType.INT,
        200_000,
        at_least(1000),
        Scope.BROKER,
        "Maximum number of list entries (topics, partitions, names, settings, tagged fields) in one "
        "request, at all depths together; counted before decoding. A request with more returns "
        "INVALID_REQUEST if its response has one top-level error, otherwise its connection is closed. "
        "Entries of DescribeConfigs, CreateTopics and other expensive requests count several times.",
    ),
    Setting(
        "socket.send.buffer.bytes",
        SettingType.INT,
        -1,
        BUFFER_SIZE,
        Scope.BROKER,
        "SO_SNDBUF of client connections. -1 leaves it to the system, which adapts it to the connection.",
    ),
    Setting(
        "socket.receive.buffer.bytes",
        SettingType.INT,
        -1,
        BUFFER_SIZE,
        Scope.BROKER,
        "SO_RCVBUF of client connections. -1 leaves it to the system, which adapts it to the connection.",
    ),
    Setting(
        "socket.listen.backlog.size",
        SettingType.INT,
        1024,
        at_least(1),
        Scope.BROKER,
        "Number of connections that may wait to be accepted. The system may allow fewer (somaxconn).",
    ),
    Setting(
        "max.connections",
        SettingType.INT,
        10_000,
        at_least(0),
        Scope.BROKER,
        "Maximum number of simultaneous connections of all listeners; further ones are closed at once. "
        "The broker lowers it to fit the limit on open files.",
        dynamic=UpdateMode.CLUSTER_WIDE,
    ),
    Setting(
        "max.connections.per.ip",
        SettingType.INT,
        INT_MAX,
        at_least(0),
        Scope.BROKER,
        "Maximum number of simultaneous connections from one address; further ones are closed at once.",
        dynamic=UpdateMode.CLUSTER_WIDE,
    ),
    Setting(
        "max.connections.per.ip.overrides",
        SettingType.LIST,
        [],
        ANY,
        Scope.BROKER,
        "Connection limits of single addresses, as address:number, comma separated. They override "
        "max.connections.per.ip.",
        dynamic=UpdateMode.CLUSTER_WIDE,
    ),
    Setting(
        "max.connection.creation.rate",
        SettingType.INT,
        INT_MAX,
        at_least(1),
        Scope.BROKER,
        "Maximum number of new connections per second of all listeners. Further ones wait to be accepted. "
        "With the prefix listener.name.<name>. of one listener.",
        dynamic=UpdateMode.CLUSTER_WIDE,
        prefix=Prefix.LISTENER,
    ),
    Setting(
        "connections.max.idle.ms",
        SettingType.LONG,
        600_000,
        Validator("-1 (never), or at least 1", lambda value: value == -1 or value >= 1),
        Scope.BROKER,
        "Close a connection that has sent nothing for this time and waits for no response. -1 never closes it.",
    ),
    Setting(
        "queued.max.requests",
        SettingType.INT,
        500,
        at_least(1),
        Scope.BROKER,
        "Maximum number of Produce requests of one connection that wait for their response; further ones "
        "are not read until one completes. Other requests wait one at a time.",
    ),
    Setting(
        "kqueue.max.waiting.requests",
        SettingType.INT,
        100_000,
        at_least(1),
        Scope.BROKER,
        "Maximum number of requests of all connections that wait for their response. Above it, each "
        "connection may have one.",
    ),
    Setting(
        "queued.max.request.bytes",
        SettingType.LONG,
        256 * MiB,
        Validator(f"-1 (no limit), or from 1 to {LONG_MAX}", lambda value: value == -1 or value >= 1),
        Scope.BROKER,
        "Memory for requests of all connections that are being received or wait. When it is full, the "
        "broker stops reading from connections until requests complete, and closes the slowest "
        "(kqueue.slow.holder.timeout.ms). One request is always accepted, whatever its size. The default "
        "is lowered to an eighth of the machine's memory.",
    ),
    Setting(
        "kqueue.queued.max.response.bytes.total",
        SettingType.LONG,
        256 * MiB,
        Validator(f"-1 (no limit), or from 1 to {LONG_MAX}", lambda value: value == -1 or value >= 1),
        Scope.BROKER,
        "Memory for responses of all connections that clients have not received. A connection whose "
        "unsent responses reach a quarter of the remaining memory starts no request; when three quarters "
        "are used, the slowest connections are closed (kqueue.slow.holder.timeout.ms). The default is "
        "lowered to an eighth of the machine's memory.",
    ),
    Setting(
        "kqueue.slow.holder.timeout.ms",
        SettingType.LONG,
        10_000,
        at_least(1),
        Scope.BROKER,
        "While memory for requests or responses is short, close connections that at their present rate "
        "would hold their memory for longer than this, the slowest first.",
    ),
    Setting(
        "kqueue.queued.max.response.bytes",
        SettingType.LONG,
        64 * MiB,
        at_least(1),
        Scope.BROKER,
        "Memory for responses of one connection that does not read them. At half of it the broker stops "
        "reading the connection's requests; above it the connection is closed. A single response may be "
        "larger. Regions of log files do not count.",
    ),
    Setting(
        "kqueue.slow.reader.timeout.ms",
        SettingType.LONG,
        30_000,
        at_least(1),
        Scope.BROKER,
        "Close a connection that has received no byte of its responses for this time.",
    ),
    Setting(
        "kqueue.slow.sender.timeout.ms",
        SettingType.LONG,
        30_000,
        at_least(1),
        Scope.BROKER,
        "Close a connection that has sent no byte for this time in the middle of a request.",
    ),
    Setting(
        "kqueue.stop.timeout.ms",
        SettingType.LONG,
        10_000,
        at_least(0),
        Scope.BROKER,
        "Maximum time that a stop waits for running requests and for clients to receive responses, "
        "before it closes the connections.",
    ),
    Setting(
        "kqueue.metrics.listener",
        SettingType.STRING,
        None,
        ANY,
        Scope.BROKER,
        "Serve /metrics for Prometheus, /healthz and /readyz at this HOST:PORT, e.g. 127.0.0.1:9404; needs the extra "
        "`metrics`. With https:// in front the certificate is that of ssl.keystore.location, and other machines may "
        "read it; without TLS they may only with kqueue.allow.insecure. Unset: nothing is served or counted.",
    ),
    Setting(
        "kqueue.metrics.names.max",
        SettingType.INT,
        1000,
        at_least(0),
        Scope.BROKER,
        "How many topics, and how many groups, have metrics of their own, in the order of their names. Topics beyond "
        "it are summed up as `other`, groups are left out.",
    ),
    Setting(
        LOG_FORMAT,
        SettingType.STRING,
        "plain",
        one_of("plain", "json"),
        Scope.BROKER,
        "The form of the lines that `kqueue serve` writes to standard error. plain: for people; json: one object a "
        "line.",
    ),
    Setting(
        "kqueue.slow.request.ms",
        SettingType.LONG,
        -1,
        at_least(-1),
        Scope.BROKER,
        "Log each request that takes longer from its first byte to its response. Waits that the client wishes do not "
        "count: max.wait.ms of a fetch, a rebalance. -1: none.",
        dynamic=UpdateMode.CLUSTER_WIDE,
    ),
    Setting(
        "kqueue.request.log.sample",
        SettingType.DOUBLE,
        0.0,
        between(0, 1),
        Scope.BROKER,
        "The share of all requests, from 0 to 1, that are logged.",
        dynamic=UpdateMode.CLUSTER_WIDE,
    ),
    Setting(
        "kqueue.metrics.otlp.endpoint",
        SettingType.STRING,
        None,
        ANY,
        Scope.BROKER,
        "Push metrics to this collector by OpenTelemetry's protocol over HTTP, e.g. http://127.0.0.1:4318; /v1/metrics "
        "is added where the URL has no path. Needs the extra `otel`. On other machines than this one it is to be "
        "https, or needs kqueue.allow.insecure. What clients push (KIP-714) is passed on to it. Unset: nothing is "
        "pushed.",
    ),
    Setting(
        "kqueue.metrics.otlp.interval.ms",
        SettingType.INT,
        60_000,
        at_least(1000),
        Scope.BROKER,
        "How often metrics are pushed.",
    ),
    Setting(
        "kqueue.metrics.otlp.headers",
        SettingType.PASSWORD,
        None,
        ANY,
        Scope.BROKER,
        "Headers of each push as name=value,name=value with percent-encoded values, e.g. a key that the collector "
        "asks for: authorization=Bearer%20SECRET.",
    ),
    Setting(
        "kqueue.watchdog.ms",
        SettingType.INT,
        1000,
        at_least(0),
        Scope.BROKER,
        "Log the function (of a plugin or of the broker) that blocks the event loop for this time; no "
        "client is served meanwhile. 0 disables it.",
    ),
    Setting(
        "background.threads",
        SettingType.INT,
        10,
        between(1, 1000),
        Scope.BROKER,
        "Maximum number of threads for disk work, per data folder, so that a slow folder delays no "
        "other. Each starts when it is first needed.",
        dynamic=UpdateMode.CLUSTER_WIDE,
    ),
)

CATALOG = Catalog(
    broker_config.SETTINGS,
    OWN_SETTINGS,
    THREADS,
    plugins.SETTINGS,
    tls_config.SETTINGS,
    sasl_config.SETTINGS,
    undeclared=undeclared_setting,
)
"""Every setting that kqueue declares."""
