"""Effect of each Kafka setting in kqueue: full effect, none (with a warning), or refusal.

- DOES: kqueue declares it and does what Kafka does (its help text says where that differs).
- WARNED: it is accepted and has no effect; one log line says so and why that is harmless. Either
  kqueue does not declare it (`UNDECLARED`, `REMOVED`, `_PREFIXES`, with the reason in `REASONS`),
  or it declares it only to accept and show it (`Setting.without_effect`).
- REFUSED: it asks for a protection or limit (`REFUSALS`) that would silently be missing.

Every broker and topic setting of Kafka 4.3 has one of these effects. A test requires that a name
that a layer declares is not in these tables.

Source: Kafka 4.3 and 3.9 broker configuration.
"""

from __future__ import annotations

import enum
import re
from typing import Any, NamedTuple

from kqueue.base.settings import (
    ANY,
    Catalog,
    Scope,
    Setting,
    SettingType,
    UpdateMode,
    Validator,
    at_least,
    format_value,
)


class SettingEffect(enum.Enum):
    """Effect of a setting."""

    DOES = "does"
    WARNED = "warned"
    REFUSED = "refused"


class SettingRefusal(NamedTuple):
    """The feature that a refused setting asks for.

    Attributes:
        asks_for: the missing feature, for the error message.
        allowed: values in lower case that are not refused.
    """

    asks_for: str
    allowed: frozenset[str] = frozenset({""})


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


UNDECLARED = _names(
    """
    alter.config.policy.class.name
    alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
    client.quota.callback.class
    controller.quorum.append.linger.ms
    controller.quorum.auto.join.enable controller.quorum.bootstrap.servers controller.quorum.election.backoff.max.ms
    controller.quorum.election.timeout.ms controller.quorum.fetch.max.bytes
    controller.quorum.fetch.snapshot.max.bytes controller.quorum.fetch.timeout.ms
    controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms controller.quorum.voters
    controller.socket.timeout.ms cordoned.log.dirs
    create.topic.policy.class.name delete.records.purgatory.purge.interval.requests
    early.start.listeners fetch.purgatory.purge.interval.requests
    group.coordinator.append.linger.ms
    group.coordinator.background.threads group.coordinator.cached.buffer.max.bytes
    group.coordinator.threads
    initial.broker.registration.timeout.ms
    kafka.metrics.polling.interval.secs kafka.metrics.reporters
    log.dir.failure.timeout.ms log.flush.start.offset.checkpoint.interval.ms
    metadata.log.dir metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
    metadata.log.segment.bytes metadata.log.segment.ms metadata.max.idle.interval.ms metadata.max.retention.bytes
    metadata.max.retention.ms metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
    num.replica.alter.log.dirs.threads offsets.load.buffer.size
    offsets.topic.compression.codec principal.builder.class producer.purgatory.purge.interval.requests
    remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds
    remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds
    remote.log.manager.thread.pool.size
    remote.log.metadata.custom.metadata.max.bytes remote.log.metadata.manager.class.name
    remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
    remote.log.metadata.manager.listener.name
    remote.log.storage.manager.class.name remote.log.storage.manager.class.path
    remote.log.storage.manager.impl.prefix
    replica.socket.receive.buffer.bytes replica.socket.timeout.ms
    replication.quota.window.num replication.quota.window.size.seconds request.timeout.ms
    sasl.client.callback.handler.class   sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class
    sasl.login.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism.controller.protocol
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
    security.providers share.coordinator.append.linger.ms share.coordinator.cached.buffer.max.bytes
    share.coordinator.state.topic.compression.codec
    share.coordinator.threads
    share.fetch.purgatory.purge.interval.requests socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms
    ssl.engine.factory.class
    """
)
"""Settings of Kafka 4 that kqueue does not declare."""

REMOVED = _names(
    """
    advertised.host.name advertised.port broker.id.generation.enable enable.zookeeper
    host.name inter.broker.protocol.version log.message.downconversion.enable log.message.format.version
    log.message.timestamp.difference.max.ms password.encoder.cipher.algorithm password.encoder.iterations
    password.encoder.key.length password.encoder.keyfactory.algorithm password.encoder.old.secret
    password.encoder.secret port reserved.broker.max.id zookeeper.clientCnxnSocket zookeeper.connect
    zookeeper.connection.timeout.ms zookeeper.max.in.flight.requests zookeeper.metadata.migration.enable
    zookeeper.session.timeout.ms zookeeper.set.acl zookeeper.sync.time.ms
    """
)
"""Settings of Kafka with ZooKeeper, which Kafka 4 removed."""

_PREFIXES = (
    "listener.name.",
    "zookeeper.ssl.",
    "config.providers.",
    "metric.reporters.",
    "rsm.config.",
    "rlmm.config.",
)
"""Prefixes of names that Kafka derives from other names."""


REFUSALS: tuple[tuple[str, SettingRefusal], ...] = (
    (r"(listener\.name\..+\.)?ssl\.engine\.factory\.class", SettingRefusal("a TLS engine written in Java")),
    (
        r"listener\.name\..+\.max\.connections(\.per\.ip(\.overrides)?)?",
        SettingRefusal("a limit on the connections of one listener"),
    ),
    (
        r"(create\.topic|alter\.config)\.policy\.class\.name",
        SettingRefusal("a policy that checks topics and settings"),
    ),
    (r"client\.quota\.callback\.class", SettingRefusal("a class that decides which quota holds for a client")),
    (r"(listener\.name\..+\.)?principal\.builder\.class", SettingRefusal("principals that a class builds")),
    (
        r"(listener\.name\..+\.)?sasl\.((login|client)\.callback\.handler|login)\.class",
        SettingRefusal("authentication by a class written in Java"),
    ),
    (r"cordoned\.log\.dirs", SettingRefusal("data folders that receive no new partitions")),
)
"""Refused settings by a pattern of the whole name."""

REASONS: tuple[tuple[str, str], ...] = (
    (
        r"controller\.|metadata\.|initial\.broker\.|sasl\.mechanism\.controller\.",
        "there is no controller quorum: metadata are in a store (kqueue.metadata, kqueue.cluster.store)",
    ),
    (r"replication\.quota\.|alter\.log\.dirs\.|num\.replica\.alter", "rates are bounded without windows and threads"),
    (r"early\.start\.", "all listeners open together"),
    (
        r"replica\.socket\.|request\.timeout\.ms|socket\.connection\.setup\.",
        "connections between brokers have timeouts and buffers of their own",
    ),
    (r"log\.dir\.failure\.", "a failed folder is reported at once"),
    (r".*\.purgatory\.purge\.interval\.requests", "completed requests leave the purgatory at once"),
    (
        r"(offsets\.topic|share\.coordinator\.state\.topic)\.compression\.codec",
        "records of coordinators are stored uncompressed, which every reader can read",
    ),
    (
        r"(group|share)\.coordinator\.",
        "coordinators share the broker's thread, and its flush joins their writes",
    ),
    (r"remote\.log\.manager\.", "rates and jobs of the tier are bounded without windows and a pool of all"),
    (
        r"remote\.log\.metadata\.|rlmm\.config\.",
        "what is in the tier is listed there, in a manifest of each partition",
    ),
    (r"remote\.log\.storage\.|rsm\.config\.", "kqueue.tier.url names the store of the tier"),
    (r"sasl\.kerberos\.", "Kerberos (GSSAPI) is not supported"),
    (
        r"sasl\.",
        "brokers fetch tokens for each other with fixed times, by client credentials or from a file",
    ),
    (r"ssl\.|security\.providers", "it belongs to Java's implementations of TLS"),
    (
        r"listener\.name\.",
        "a listener has settings of its own for TLS, SASL and max.connection.creation.rate only",
    ),
    (
        r"metrics?\.|kafka\.metrics\.",
        "kqueue.metrics.listener serves all metrics, kqueue.metrics.otlp.endpoint pushes them and those of clients",
    ),
    (r"offsets\.load\.buffer\.size", "groups are loaded by the reads of the log"),
    (r"log\.flush\.start\.offset\.", "log start offsets are written with the recovery points"),
    (r"config\.providers\.", "config.providers does not name this provider"),
    (r"broker\.id\.generation|reserved\.broker", "node.id names a broker; numbers are not generated"),
    (
        r"zookeeper\.|enable\.zookeeper",
        "kqueue.cluster.store names a ZooKeeper, zookeeper.ssl.* its TLS, broker.session.timeout.ms its sessions",
    ),
    (
        r"password\.encoder\.",
        "secrets altered at run time are stored as given, in a file of mode 0600, or encrypted by the storage's key",
    ),
    (
        r"inter\.broker\.protocol|log\.message\.format|log\.message\.downconversion",
        "every supported version is served at any time",
    ),
    (
        r"log\.message\.timestamp\.difference\.max\.ms",
        "use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms",
    ),
    (r"(advertised\.)?(host\.name|port)", "use listeners and advertised.listeners"),
)
"""Why a setting without effect is harmless, by a pattern that matches the start of its name.

The first match counts.
"""


_DYNAMIC: dict[str, tuple[SettingType, int | None, UpdateMode]] = {
    **{
        name: (kind, low, UpdateMode.CLUSTER_WIDE)
        for kind, low, names in (
            (SettingType.LIST, None, "metric.reporters"),
            (
                SettingType.INT,
                524288,
                "group.coordinator.cached.buffer.max.bytes share.coordinator.cached.buffer.max.bytes",
            ),
        )
        for name in names.split()
    },
    **{
        name: (kind, None, UpdateMode.PER_BROKER)
        for kind, names in (
            (SettingType.STRING, "sasl.kerberos.kinit.cmd sasl.kerberos.service.name"),
            (SettingType.CLASS, "principal.builder.class ssl.engine.factory.class"),
            (SettingType.LIST, "sasl.kerberos.principal.to.local.rules cordoned.log.dirs"),
            (SettingType.LONG, "sasl.kerberos.min.time.before.relogin"),
            (SettingType.SHORT, "sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds"),
            (
                SettingType.DOUBLE,
                (
                    "sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor "
                    "sasl.login.refresh.window.factor sasl.login.refresh.window.jitter"
                ),
            ),
        )
        for name in names.split()
    },
}
"""Undeclared settings that Kafka changes at run time: type, least value, mode.

Source: Kafka 4.3 DynamicBrokerConfig.dynamicConfigUpdateModes.
"""
_OF_LISTENER = re.compile(r"listener\.name\.[^.]+\.(?P<rest>.+)")


def undeclared_setting(name: str) -> Setting | None:
    """Return the row by which an undeclared setting of Kafka is changed at run time, stored and
    shown; None: Kafka 4 has no such setting.

    What asks for a protection or limit that would be missing is refused.
    """
    match = _OF_LISTENER.fullmatch(name)
    rest = name if match is None else match["rest"]
    known = _DYNAMIC.get(rest) or _DYNAMIC.get(rest.partition(".")[2]) if match is not None else _DYNAMIC.get(name)
    refusal = refusal_of(name)
    if known is None and refusal is None and (match is not None or name not in UNDECLARED):
        return None
    kind, low, mode = known or (SettingType.STRING, None, UpdateMode.READ_ONLY)
    if match is not None:
        mode = UpdateMode.PER_BROKER
    valid = ANY if low is None else at_least(low)
    if refusal is not None:
        valid = _refusing(refusal, kind)
    doc = f"Stored and shown only: {reason_for(name)}."
    return Setting(name, kind, None, valid, Scope.BROKER, doc, without_effect=True, dynamic=mode)


def _refusing(refusal: SettingRefusal, kind: SettingType) -> Validator:
    def accepts(value: Any) -> bool:
        return (format_value(value) or "").lower() in refusal.allowed

    def words(value: Any) -> str:
        return f"Class {value} could not be found." if kind is SettingType.CLASS else ""

    return Validator(f"nothing: it asks for {refusal.asks_for}, which kqueue does not have", accepts, words)


def is_undeclared(name: str) -> bool:
    """Return whether `name` is a setting of Kafka that kqueue does not declare."""
    return name in UNDECLARED or name in REMOVED or name.startswith(_PREFIXES)


def refusal_of(name: str) -> SettingRefusal | None:
    """Return what a refused setting asks for, and its allowed values; None: it is not refused."""
    return next((refusal for pattern, refusal in REFUSALS if re.fullmatch(pattern, name)), None)


def reason_for(name: str) -> str:
    """Return why this undeclared setting is harmless without effect."""
    if refusal_of(name) is not None:
        return "its value requests no feature"
    return next(reason for pattern, reason in REASONS if re.match(pattern, name))


def effect_of(name: str, row: Setting | None) -> SettingEffect:
    """Return the effect of a setting of Kafka or kqueue.

    Args:
        row: the declaration of the setting; None: it has none.

    Raises:
        KeyError: no such setting.
    """
    if row is not None:
        return SettingEffect.WARNED if row.without_effect else SettingEffect.DOES
    if not is_undeclared(name):
        raise KeyError(name)
    return SettingEffect.WARNED if refusal_of(name) is None else SettingEffect.REFUSED


class SettingSummary(NamedTuple):
    """One row of `all_settings`.

    Attributes:
        scope: broker, topic, group or client-metrics.
        about: the help text, or why the setting has no effect or is refused.
    """

    name: str
    scope: str
    effect: SettingEffect
    about: str


def all_settings(catalog: Catalog) -> list[SettingSummary]:
    """Return declared settings and undeclared ones of Kafka 4.3, sorted by scope and name."""
    rows = [row for scope in Scope for row in catalog.rows(scope).values()]
    lines = [SettingSummary(row.name, row.scope.value, effect_of(row.name, row), _about(row)) for row in rows]
    for name in UNDECLARED - catalog.broker.keys():
        refusal = refusal_of(name)
        about = (
            f"Asks for {refusal.asks_for}, which kqueue does not have."
            if refusal is not None
            else f"No effect: {reason_for(name)}."
        )
        lines.append(SettingSummary(name, "broker", effect_of(name, None), about))
    return sorted(lines, key=lambda line: (line.scope, line.name))


def _about(row: Setting) -> str:
    return f"{row.doc} No effect on a single broker." if row.cluster_only else row.doc
