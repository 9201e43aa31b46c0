"""Settings of authentication by SASL."""

from __future__ import annotations

from kqueue.base.settings import ANY, INT_MAX, KiB, Prefix, Scope, Setting, SettingType, UpdateMode, at_least, between

ENABLED_MECHANISMS = "sasl.enabled.mechanisms"
JAAS_CONFIG = "sasl.jaas.config"
USERS_FILE = "kqueue.sasl.users.file"
RECEIVE_BYTES_MAX = "sasl.server.max.receive.size"
REAUTH_MS_MAX = "connections.max.reauth.ms"
FAILURE_DELAY_MS = "connection.failed.authentication.delay.ms"
TIMEOUT_MS = "kqueue.authentication.timeout.ms"
JWKS_URL = "sasl.oauthbearer.jwks.endpoint.url"
JWKS_REFRESH_MS = "sasl.oauthbearer.jwks.endpoint.refresh.ms"
JWKS_RETRY_MS = "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"
JWKS_RETRY_MS_MAX = "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"
ISSUER = "sasl.oauthbearer.expected.issuer"
AUDIENCE = "sasl.oauthbearer.expected.audience"
CLOCK_SKEW_S = "sasl.oauthbearer.clock.skew.seconds"
SUBJECT_CLAIM = "sasl.oauthbearer.sub.claim.name"
SCOPE_CLAIM = "sasl.oauthbearer.scope.claim.name"
HANDLER_CLASS = "sasl.server.callback.handler.class"
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"
TOKEN_SCOPE = "sasl.oauthbearer.scope"
REQUIRED_SCOPE = "kqueue.sasl.oauthbearer.required.scope"


def _row(name: str, kind: SettingType, default: object, doc: str, least: float | None = None) -> Setting:
    valid = ANY if least is None else at_least(least)
    return Setting(name, kind, default, valid, Scope.BROKER, doc, prefix=Prefix.MECHANISM)


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
        TIMEOUT_MS,
        SettingType.INT,
        30_000,
        at_least(1),
        Scope.BROKER,
        "Close a connection of a listener with SASL that has not authenticated within this time.",
        prefix=Prefix.LISTENER,
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
    _row(
        HANDLER_CLASS,
        SettingType.CLASS,
        None,
        "What checks the tokens of OAUTHBEARER: unset or OAuthBearerValidatorCallbackHandler: signed tokens; "
        "OAuthBearerUnsecuredValidatorCallbackHandler, with its package: tokens that everybody can make, for tests.",
    ),
    _row(
        JWKS_URL,
        SettingType.STRING,
        None,
        "Where the identity provider's public keys are (JWKS): a file:, https: or http: URL.",
    ),
    _row(JWKS_REFRESH_MS, SettingType.LONG, 3_600_000, "How often the keys are read again.", 1),
    _row(
        JWKS_RETRY_MS,
        SettingType.LONG,
        100,
        "First wait after the keys could not be read; it doubles with each further failure.",
        1,
    ),
    _row(
        JWKS_RETRY_MS_MAX,
        SettingType.LONG,
        10_000,
        "Longest wait after the keys could not be read. Also the least time between two reads because of tokens "
        "that name an unknown key.",
        1,
    ),
    _row(
        ISSUER,
        SettingType.STRING,
        None,
        "Issuer (`iss`) that tokens must have. Unset: any whose key signed them.",
    ),
    _row(
        AUDIENCE,
        SettingType.LIST,
        [],
        "Audiences (`aud`) of which a token must have one. Empty: tokens for an audience are refused.",
    ),
    _row(
        CLOCK_SKEW_S,
        SettingType.INT,
        30,
        "How much the clocks of broker and identity provider may differ.",
        0,
    ),
    _row(SUBJECT_CLAIM, SettingType.STRING, "sub", "Claim that has the name of the user."),
    _row(SCOPE_CLAIM, SettingType.STRING, "scope", "Claim that has the scopes of a token."),
    _row(
        REQUIRED_SCOPE,
        SettingType.LIST,
        [],
        "Scopes that a token must have, all of them. Kafka has no such setting for signed tokens.",
    ),
    _row(
        TOKEN_URL,
        SettingType.STRING,
        None,
        "With sasl.mechanism.inter.broker.protocol=OAUTHBEARER: where this broker gets its own token: a file: URL of "
        "a token, which is read at each authentication, or the https: URL of the identity provider.",
    ),
    _row(CLIENT_ID, SettingType.STRING, None, "Name of this broker at the identity provider."),
    _row(CLIENT_SECRET, SettingType.PASSWORD, None, "Secret of this broker at the identity provider."),
    _row(TOKEN_SCOPE, SettingType.STRING, None, "Scope that this broker asks for with its token."),
)
