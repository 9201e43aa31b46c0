"""Settings of OAUTHBEARER, and the validator that they ask for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.base.settings import ANY, Prefix, Scope, Setting, SettingType, at_least
from kqueue.security.jaas import LoginModule
from kqueue.security.sasl.oauthbearer import OAUTHBEARER, TokenValidator
from kqueue.security.sasl.tokens import SignedTokens, SigningKeys, TokenRules, UnsecuredTokens

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
REQUIRED_SCOPE = "kqueue.sasl.oauthbearer.required.scope"
_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
SIGNED_HANDLERS = (
    f"{_PACKAGE}OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}secured.OAuthBearerValidatorCallbackHandler",
)
UNSECURED_HANDLER = f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
logger = logging.getLogger("kqueue.security")


class JwksConfig(NamedTuple):
    """Where the keys of an identity provider are, and when they are read again, in milliseconds."""

    url: str
    refresh_ms: float
    retry_ms: float
    retry_ms_max: float


OpenKeys = Callable[[JwksConfig], SigningKeys]
"""Begins to read keys. Raises SettingError."""


def _row(name: str, kind: SettingType, default: object, doc: str, least: float | None = None) -> Setting:
    valid = ANY if least is None else at_least(least)
    return Setting(name, kind, default, valid, Scope.BROKER, doc, prefix=Prefix.MECHANISM)


SETTINGS: tuple[Setting, ...] = (
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
)


def token_validator(
    config: Config, listener: str, module: LoginModule | None, clock: Clock, open_keys: OpenKeys
) -> TokenValidator:
    """Return what checks the tokens of a listener.

    Args: module: its login module, whose options are those of unsecured tokens; None: none is set.
    Raises: SettingError.
    """

    def value(name: str) -> object:
        return config.of_listener(listener, name, OAUTHBEARER)

    where = f"listener.name.{listener.lower()}.oauthbearer"
    handler = value(HANDLER_CLASS) or SIGNED_HANDLERS[0]
    if handler == UNSECURED_HANDLER:
        logger.warning("listener %s accepts unsecured tokens: every client can be whoever it says", listener)
        return UnsecuredTokens(_unsecured_rules(module, where), clock)
    if handler not in SIGNED_HANDLERS:
        expected = ", ".join((*SIGNED_HANDLERS, UNSECURED_HANDLER))
        raise SettingError(f"{where}.{HANDLER_CLASS}: expected one of {expected}, found {handler}")
    url = value(JWKS_URL)
    if url is None:
        raise SettingError(f"OAUTHBEARER of listener {listener} has no keys: set {where}.{JWKS_URL}")
    of = config.of_listener
    rules = TokenRules(
        of(listener, ISSUER, OAUTHBEARER),
        of(listener, AUDIENCE, OAUTHBEARER),
        of(listener, CLOCK_SKEW_S, OAUTHBEARER),
        of(listener, REQUIRED_SCOPE, OAUTHBEARER),
        of(listener, SUBJECT_CLAIM, OAUTHBEARER),
        of(listener, SCOPE_CLAIM, OAUTHBEARER),
    )
    keys = JwksConfig(
        str(url),
        of(listener, JWKS_REFRESH_MS, OAUTHBEARER),
        of(listener, JWKS_RETRY_MS, OAUTHBEARER),
        of(listener, JWKS_RETRY_MS_MAX, OAUTHBEARER),
    )
    return SignedTokens(rules, open_keys(keys), clock)


def _unsecured_rules(module: LoginModule | None, where: str) -> TokenRules:
    options = module.options if module is not None else {}
    try:
        skew_ms = int(options.get("unsecuredValidatorAllowableClockSkewMs", "0"))
    except ValueError:
        raise SettingError(f"{where}: unsecuredValidatorAllowableClockSkewMs is not a number") from None
    return TokenRules(
        clock_skew_s=skew_ms / 1000,
        scopes=options.get("unsecuredValidatorRequiredScope", "").split(),
        subject_claim=options.get("unsecuredValidatorPrincipalClaimName", "sub"),
        scope_claim=options.get("unsecuredValidatorScopeClaimName", "scope"),
        needs_issue_time=False,
    )
