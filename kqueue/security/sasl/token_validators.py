"""The validator of tokens that the settings of a listener ask for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.security.jaas import LoginModule
from kqueue.security.sasl.config import (
    AUDIENCE,
    CLOCK_SKEW_S,
    HANDLER_CLASS,
    ISSUER,
    JAAS_CONFIG,
    JWKS_REFRESH_MS,
    JWKS_RETRY_MS,
    JWKS_RETRY_MS_MAX,
    JWKS_URL,
    REQUIRED_SCOPE,
    SCOPE_CLAIM,
    SUBJECT_CLAIM,
)
from kqueue.security.sasl.oauthbearer import OAUTHBEARER, TokenValidator
from kqueue.security.sasl.tokens import SignedTokens, SigningKeys, TokenRules, UnsecuredTokens

_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
SIGNED_HANDLERS = (
    f"{_PACKAGE}OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}secured.OAuthBearerValidatorCallbackHandler",
)
UNSECURED_HANDLER = f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
logger = logging.getLogger("kqueue.security")


@dataclass(frozen=True, slots=True)
class JwksConfig:
    """The place of an identity provider's keys, and how often they are read, in milliseconds.

    `options`: of the login module `setting`; those that begin with ``ssl.`` say whom an https URL
    is trusted by, as in Kafka.
    """

    url: str = field(repr=False)
    refresh_ms: float
    retry_ms: float
    retry_ms_max: float
    setting: str = JAAS_CONFIG
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


OpenKeys = Callable[[JwksConfig], SigningKeys]
"""Begins to read keys. Raises SettingError."""


def token_validator(
    config: Config, listener: str, module: LoginModule | None, clock: Clock, open_keys: OpenKeys
) -> TokenValidator:
    """Return what checks the tokens of a listener.

    Args: module: its login module, whose options are those of unsecured tokens, and of TLS with the
        identity provider; None: none is set.
    Raises: SettingError.
    """

    def value(name: str) -> object:
        return config.of_listener(listener, name, OAUTHBEARER)

    where = f"listener.name.{listener.lower()}.oauthbearer"
    handler = value(HANDLER_CLASS) or SIGNED_HANDLERS[0]
    if handler == UNSECURED_HANDLER:
        events.LISTENER_INSECURE.log(
            logger, "listener %s accepts unsecured tokens: every client can be whoever it says", listener=listener
        )
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
        f"{where}.{JAAS_CONFIG}",
        module.options if module is not None else {},
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
