"""Settings of authentication by SASL."""

from __future__ import annotations

from kqueue.base.settings import ANY, INT_MAX, KiB, Prefix, Scope, Setting, SettingType, UpdateMode, at_least, between

ENABLED_MECHANISMS = "sasl.enabled.mechanisms"
JAAS_CONFIG = "sasl.jaas.config"
USERS_FILE = "kqueue.sasl.users.file"
RECEIVE_BYTES_MAX = "sasl.server.max.receive.size"
REAUTH_MS_MAX = "connections.max.reauth.ms"
FAILURE_DELAY_MS = "connection.failed.authentication.delay.ms"

SETTINGS: tuple[Setting, ...] = (
    Setting(
        ENABLED_MECHANISMS,
        SettingType.LIST,
        [],
        ANY,
        Scope.BROKER,
        "SASL mechanisms that clients may use: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. A listener with "
        "SASL needs at least one. Kafka's default, GSSAPI, is not supported.",
        prefix=Prefix.LISTENER,
    ),
    Setting(
        JAAS_CONFIG,
        SettingType.PASSWORD,
        None,
        ANY,
        Scope.BROKER,
        "Login module of a mechanism with its options, in Kafka's syntax, set for a listener and a mechanism: "
        'listener.name.NAME.plain.sasl.jaas.config=...PlainLoginModule required user_ann="secret";. ScramLoginModule '
        "takes users in the same form, besides those of the metadata store.",
        prefix=Prefix.MECHANISM,
    ),
    Setting(
        USERS_FILE,
        SettingType.STRING,
        None,
        ANY,
        Scope.BROKER,
        "File with users of PLAIN and SCRAM, one user=password in each line, besides those of sasl.jaas.config. In "
        "place of a password a line may have a SCRAM-SHA-512 credential (SCRAM-SHA-512$iterations:salt$keys).",
        prefix=Prefix.MECHANISM,
    ),
    Setting(
        RECEIVE_BYTES_MAX,
        SettingType.INT,
        512 * KiB,
        between(1024, INT_MAX),
        Scope.BROKER,
        "Maximum size of a request before a client has authenticated. A longer one closes its connection before "
        "memory is allocated for it.",
        prefix=Prefix.LISTENER,
    ),
    Setting(
        REAUTH_MS_MAX,
        SettingType.LONG,
        0,
        at_least(0),
        Scope.BROKER,
        "Time after which a client must authenticate again. A connection that sends another request later is "
        "closed. 0: only the credentials may have an end, e.g. a token. Clients need SaslAuthenticate version 1.",
        prefix=Prefix.MECHANISM,
    ),
    Setting(
        FAILURE_DELAY_MS,
        SettingType.INT,
        100,
        at_least(0),
        Scope.BROKER,
        "How long the answer to a failed authentication waits, before the connection is closed. Repeated failures "
        "from one address wait so many times longer, up to 5 seconds.",
        dynamic=UpdateMode.CLUSTER_WIDE,
    ),
)
