"""The settings of OAUTHBEARER that are accepted."""

from __future__ import annotations

import pytest

from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.config.catalog import CATALOG
from kqueue.security.jaas import OAUTHBEARER_MODULE, LoginModule
from kqueue.security.sasl.oauthbearer import InvalidToken, TokenValidator
from kqueue.security.sasl.token_validators import UNSECURED_HANDLER, JwksConfig, token_validator
from kqueue.security.sasl.tokens import UnsecuredTokens
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.security.sasl.test_tokens import CLAIMS, CLOCK, Keys
from kqueue.tests.security.sasl.token_maker import jwks, signed, unsecured
from kqueue.tests.tables import for_each

OWN = "listener.name.sasl.oauthbearer."


def validator(settings: dict[str, object], options: dict[str, str] | None = None) -> TokenValidator:
    opened: list[JwksConfig] = []

    def open_keys(config: JwksConfig) -> Keys:
        opened.append(config)
        return Keys(jwks())

    module = LoginModule(OAUTHBEARER_MODULE, options or {})
    made = token_validator(Config(CATALOG, settings), "SASL", module, CLOCK, open_keys)
    assert len(opened) == (not isinstance(made, UnsecuredTokens))
    return made


def test_signed_tokens_are_accepted_by_the_rules_of_the_settings():
    made = validator(
        {
            f"{OWN}sasl.oauthbearer.jwks.endpoint.url": "file:/keys",
            "sasl.oauthbearer.expected.issuer": "us",
            f"{OWN}sasl.oauthbearer.expected.audience": "kq,other",
            "sasl.oauthbearer.sub.claim.name": "user",
            "kqueue.sasl.oauthbearer.required.scope": "write",
        }
    )
    good = {**CLAIMS, "iss": "us", "aud": "kq", "user": "bob", "scope": "read write"}
    assert made.validate(signed(good)).principal.name == "bob"
    for name in ("iss", "aud", "user", "scope"):
        with pytest.raises(InvalidToken):
            made.validate(signed({key: value for key, value in good.items() if key != name}))
    with pytest.raises(InvalidToken):
        made.validate(unsecured(good))


def test_unsecured_tokens_are_accepted_only_where_their_validator_is_named(caplog):
    options = {
        "unsecuredValidatorPrincipalClaimName": "user",
        "unsecuredValidatorRequiredScope": "a b",
        "unsecuredValidatorAllowableClockSkewMs": "5000",
    }
    made = validator({f"{OWN}sasl.server.callback.handler.class": UNSECURED_HANDLER}, options)
    now_s = CLOCK.wall_ms() / 1000
    assert made.validate(unsecured({"user": "ann", "exp": now_s - 4, "scope": ["a", "b"]})).principal.name == "ann"
    assert "accepts unsecured tokens" in caplog.text
    with pytest.raises(InvalidToken):
        made.validate(unsecured({"user": "ann", "exp": now_s - 6, "scope": ["a", "b"]}))


@for_each(
    "settings, options, message",
    [
        ({}, {}, "has no keys: set listener.name.sasl.oauthbearer.sasl.oauthbearer.jwks.endpoint.url"),
        ({"sasl.server.callback.handler.class": "com.example.Own"}, {}, "found com.example.Own"),
        (
            {"sasl.server.callback.handler.class": UNSECURED_HANDLER},
            {"unsecuredValidatorAllowableClockSkewMs": "soon"},
            "is not a number",
        ),
    ],
)
def test_wrong_settings_are_refused(settings, options, message):
    module = LoginModule(OAUTHBEARER_MODULE, options)
    with pytest.raises(SettingError, match=message):
        token_validator(Config(CATALOG, settings), "SASL", module, ManualClock(), lambda config: Keys(None))
