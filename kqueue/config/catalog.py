"""Settings that the server itself reads, and `CATALOG`: the settings of all layers.

All limits are finite by default, so that no client can exhaust the broker.
"""

from __future__ import annotations

from kqueue.api import version_profiles
from kqueue.base.settings import (
    ANY,
    INT_MAX,
    LONG_MAX,
    Catalog,
    MiB,
    Scope,
    Setting,
    SettingType,
    Validator,
    at_least,
    between,
    one_of,
)
from kqueue.broker import config as broker_config
from kqueue.config import plugins

BUFFER_SIZE = Validator("-1 (the system chooses), or at least 1024", lambda value: value == -1 or value >= 1024)

OWN_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "listeners",
        SettingType.LIST,
        ["PLAINTEXT://127.0.0.1:9092"],
        Validator("NAME://host:port, comma separated", bool),
        Scope.BROKER,
        "Where clients may connect. Port 0 takes a free port; an empty host or 0.0.0.0 takes every interface. "
        "Loopback alone by default, because anyone who can connect can read, write and delete.",
    ),
    Setting(
        "advertised.listeners",
        SettingType.LIST,
        None,
        Validator("NAME://host:port, comma separated", bool),
        Scope.BROKER,
        "Addresses that clients are told to connect to, by listener name; a listener that is not named here tells "
        "its own. "
        "Port 0 means the real port.",
    ),
    Setting(
        "listener.security.protocol.map",
        SettingType.LIST,
        ["PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT", "SASL_SSL:SASL_SSL"],
        Validator("NAME:PROTOCOL, comma separated", bool),
        Scope.BROKER,
        "Security protocol of each listener name; PLAINTEXT is the only one there is yet.",
    ),
    Setting(
        "socket.request.max.bytes",
        SettingType.INT,
        100 * MiB,
        at_least(1024),
        Scope.BROKER,
        "Largest request; a longer one closes its connection before anything is allocated for it.",
    ),
    Setting(
        "kqueue.request.max.bytes",
        SettingType.INT,
        16 * MiB,
        at_least(1024),
        Scope.BROKER,
        "Largest request that carries no records (all but Produce): its many small parts take many times its size "
        "once they are decoded.",
    ),
    Setting(
        "kqueue.request.max.items",
        SettingType.INT,
        200_000,
        at_least(1000),
        Scope.BROKER,
        "Most list entries (topics, partitions, names, settings, tagged fields) in one request, at all depths "
        "together. "
        "They are counted before they are decoded. A request with more is answered INVALID_REQUEST where its "
        "response has one error for "
        "the whole, else its connection is closed. Entries of DescribeConfigs, CreateTopics and others that cost "
        "more count several times.",
    ),
    Setting(
        "socket.send.buffer.bytes",
        SettingType.INT,
        -1,
        BUFFER_SIZE,
        Scope.BROKER,
        "SO_SNDBUF of client connections; -1 leaves it to the system, which adapts it to the connection.",
    ),
    Setting(
        "socket.receive.buffer.bytes",
        SettingType.INT,
        -1,
        BUFFER_SIZE,
        Scope.BROKER,
        "SO_RCVBUF of client connections; -1 leaves it to the system, which adapts it to the connection.",
    ),
    Setting(
        "socket.listen.backlog.size",
        SettingType.INT,
        1024,
        at_least(1),
        Scope.BROKER,
        "Connections that may wait to be accepted; the system may allow fewer (somaxconn).",
    ),
    Setting(
        "max.connections",
        SettingType.INT,
        10_000,
        at_least(0),
        Scope.BROKER,
        "Connections at the same time, all listeners together; one more is closed at once. Lowered to what the "
        "limit on open files leaves.",
    ),
    Setting(
        "max.connections.per.ip",
        SettingType.INT,
        INT_MAX,
        at_least(0),
        Scope.BROKER,
        "Connections at the same time from one address; one more is closed at once.",
    ),
    Setting(
        "max.connections.per.ip.overrides",
        SettingType.LIST,
        [],
        ANY,
        Scope.BROKER,
        "Other limits for some addresses, as address:number, comma separated.",
    ),
    Setting(
        "max.connection.creation.rate",
        SettingType.INT,
        INT_MAX,
        at_least(1),
        Scope.BROKER,
        "New connections per second, all listeners together; those above wait to be accepted.",
    ),
    Setting(
        "connections.max.idle.ms",
        SettingType.LONG,
        600_000,
        Validator("-1 (never), or at least 1", lambda value: value == -1 or value >= 1),
        Scope.BROKER,
        "Close a connection that sent nothing for so long and waits for no answer; -1 never does.",
    ),
    Setting(
        "queued.max.requests",
        SettingType.INT,
        500,
        at_least(1),
        Scope.BROKER,
        "Produce requests of one connection that may wait for their answer; its next ones are not read before. "
        "Other requests wait one by one.",
    ),
    Setting(
        "kqueue.max.waiting.requests",
        SettingType.INT,
        100_000,
        at_least(1),
        Scope.BROKER,
        "Requests of all connections together that may wait for their answer; beyond it, each connection may have one.",
    ),
    Setting(
        "queued.max.request.bytes",
        SettingType.LONG,
        256 * MiB,
        Validator(f"-1 (no limit), or from 1 to {LONG_MAX}", lambda value: value == -1 or value >= 1),
        Scope.BROKER,
        "Memory for requests that are arriving or wait, all connections together; beyond it connections are not "
        "read from until others are "
        "done, and the slowest are closed (kqueue.slow.holder.timeout.ms). One request is always let through, "
        "whatever its size. "
        "The default is lowered to an eighth of the machine's memory.",
    ),
    Setting(
        "kqueue.queued.max.response.bytes.total",
        SettingType.LONG,
        256 * MiB,
        Validator(f"-1 (no limit), or from 1 to {LONG_MAX}", lambda value: value == -1 or value >= 1),
        Scope.BROKER,
        "Memory for answers that clients have not taken, all connections together; a connection that is owed a "
        "quarter of what is left "
        "begins no request, and when three quarters are used the slowest are closed (kqueue.slow.holder.timeout.ms). "
        "The default is lowered to an eighth of the machine's memory.",
    ),
    Setting(
        "kqueue.slow.holder.timeout.ms",
        SettingType.LONG,
        10_000,
        at_least(1),
        Scope.BROKER,
        "While memory for requests or answers is short: close connections that at their present rate would hold "
        "theirs for longer than "
        "this, the slowest first.",
    ),
    Setting(
        "kqueue.queued.max.response.bytes",
        SettingType.LONG,
        64 * MiB,
        at_least(1),
        Scope.BROKER,
        "Answers held in memory for one connection that does not read them: from half of it its requests are no "
        "longer read, "
        "beyond it the connection is closed. A single answer may be larger. Parts of log files do not count.",
    ),
    Setting(
        "kqueue.slow.reader.timeout.ms",
        SettingType.LONG,
        30_000,
        at_least(1),
        Scope.BROKER,
        "Close a connection that took no byte of its answers for so long.",
    ),
    Setting(
        "kqueue.slow.sender.timeout.ms",
        SettingType.LONG,
        30_000,
        at_least(1),
        Scope.BROKER,
        "Close a connection that sent no byte for so long in the middle of a request.",
    ),
    Setting(
        "kqueue.stop.timeout.ms",
        SettingType.LONG,
        10_000,
        at_least(0),
        Scope.BROKER,
        "How long a stop waits for requests under way and for answers to be taken, before it closes the connections.",
    ),
    Setting(
        "kqueue.as.version",
        SettingType.STRING,
        None,
        one_of(*version_profiles.VERSIONS),
        Scope.BROKER,
        "Serve the API versions of this Kafka and no others, to try clients against it; unset: all that kqueue has.",
    ),
    Setting(
        "kqueue.watchdog.ms",
        SettingType.INT,
        1000,
        at_least(0),
        Scope.BROKER,
        "Log who holds the event loop for so long: a plugin, or a function of the broker's own; nobody is served "
        "meanwhile. 0: never.",
    ),
    Setting(
        "background.threads",
        SettingType.INT,
        10,
        between(1, 1000),
        Scope.BROKER,
        "Most threads for work that waits on a disk, per data folder: a slow one holds up no other. Each starts "
        "when first needed.",
    ),
)

CATALOG = Catalog(broker_config.SETTINGS, OWN_SETTINGS, plugins.SETTINGS)
"""Every setting that kqueue knows."""
