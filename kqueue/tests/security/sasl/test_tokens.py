"""The tokens that are accepted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.security.principals import Principal
from kqueue.security.sasl.oauthbearer import InvalidToken
from kqueue.security.sasl.tokens import SignedTokens, TokenRules, UnsecuredTokens, authenticated_by, load_joserfc
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.security.sasl.token_maker import ec_key, jwks, rsa_key, signed, symmetric_key, unsecured
from kqueue.tests.tables import for_each

CLOCK = ManualClock()
NOW_S = CLOCK.wall_ms() / 1000
RULES = TokenRules()
CLAIMS = {"sub": "ann", "iat": NOW_S, "exp": NOW_S + 60}


class Keys:
    def __init__(self, text: str | None) -> None:
        self.key_set = None if text is None else load_joserfc()(text)
        self.missed = 0

    def is_missing(self) -> None:
        self.missed += 1


def validator(rules: TokenRules = RULES, keys: Keys | None = None) -> SignedTokens:
    return SignedTokens(rules, keys or Keys(jwks()), CLOCK)


@for_each("key, algorithm", [(rsa_key, "RS256"), (rsa_key, "PS512"), (ec_key, "ES256")])
def test_a_signed_token_authenticates_its_subject_until_it_expires(key, algorithm):
    identity = validator().validate(signed(CLAIMS, key(), algorithm))
    assert identity.principal == Principal("User", "ann")
    assert identity.expires_ms == (NOW_S + 60) * 1000


@for_each("name", ["iat", "nbf"])
def test_a_token_of_this_millisecond_is_accepted_without_clock_skew(name):
    rules = TokenRules(clock_skew_s=0)
    assert validator(rules).validate(signed({**CLAIMS, name: NOW_S + 0.0009})).expires_ms == (NOW_S + 60) * 1000
    with pytest.raises(InvalidToken):
        validator(rules).validate(signed({**CLAIMS, name: NOW_S + 0.0011}))


@for_each(
    "changes, rules, reason",
    [
        ({"exp": NOW_S - 30}, {}, "expired"),
        ({"exp": None}, {}, "no exp"),
        ({"exp": "soon"}, {}, "not a number"),
        ({"exp": True}, {}, "not a number"),
        ({"exp": 1e300}, {}, "not a time"),
        ({"iat": None}, {}, "no iat"),
        ({"nbf": NOW_S + 31}, {}, "not valid yet"),
        ({"iat": NOW_S + 31}, {}, "issued in the future"),
        ({"iat": NOW_S + 31, "exp": NOW_S + 90}, {"clock_skew_s": 30.5}, "issued in the future"),
        ({"iat": NOW_S, "exp": NOW_S - 1}, {}, "expires before it begins"),
        ({"iat": NOW_S - 9, "nbf": NOW_S + 1, "exp": NOW_S}, {}, "expires before it begins"),
        ({}, {"issuer": "us"}, "issuer"),
        ({"iss": "them"}, {"issuer": "us"}, "issuer"),
        ({}, {"audiences": ["kq"]}, "audience"),
        ({"aud": ["a", "b"]}, {"audiences": ["kq"]}, "audience"),
        ({"aud": "kq"}, {}, "audience"),
        ({}, {"scopes": ["read"]}, "scope"),
        ({"scope": "reader write"}, {"scopes": ["read"]}, "scope"),
        ({"sub": None}, {}, "no principal"),
        ({"sub": ""}, {}, "no principal"),
        ({"sub": " "}, {}, "no principal"),
        ({"sub": "a\0b"}, {}, "no principal"),
        ({"sub": 7}, {}, "no principal"),
        ({}, {"subject_claim": "user"}, "no principal"),
    ],
)
def test_claims_that_break_a_rule_are_refused(changes, rules, reason):
    claims = {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}
    with pytest.raises(InvalidToken, match=reason):
        validator(TokenRules(**rules)).validate(signed(claims))


@for_each(
    "changes, rules",
    [
        ({"iat": NOW_S - 60, "exp": NOW_S - 29}, {}),
        ({"iat": NOW_S + 30, "exp": NOW_S + 90}, {}),
        ({"iat": NOW_S + 90, "exp": NOW_S + 99}, {"clock_skew_s": 90}),
        ({"nbf": NOW_S + 30}, {}),
        ({"iss": "us"}, {"issuer": "us"}),
        ({"aud": ["a", "kq"]}, {"audiences": ["kq", "x"]}),
        ({"scope": "read write"}, {"scopes": ["write", "read"]}),
        ({"scp": ["read", "write"]}, {"scopes": ["write"], "scope_claim": "scp"}),
        ({"user": "ann"}, {"subject_claim": "user"}),
    ],
)
def test_claims_at_the_bounds_are_accepted(changes, rules):
    assert validator(TokenRules(**rules)).validate(signed({**CLAIMS, **changes})).principal.name == "ann"


def test_only_signatures_of_the_providers_keys_count():
    stranger = signed(CLAIMS, rsa_key("stranger"))
    keys = Keys(jwks())
    with pytest.raises(InvalidToken, match="names no key"):
        validator(keys=keys).validate(stranger)
    assert keys.missed == 1
    forged = signed(CLAIMS, rsa_key("stranger"), kid="one")
    token = signed(CLAIMS)
    symmetric = Keys(jwks())
    symmetric.key_set.keys.append(symmetric_key())
    for wrong, known in (
        (forged, None),
        (token[:-6] + "AAAAAA", None),
        (token.rpartition(".")[0] + ".", None),
        (unsecured(CLAIMS), None),
        (signed(CLAIMS, symmetric_key(), "HS256"), symmetric),
        (".".join([token.split(".")[0], unsecured({**CLAIMS, "sub": "eve"}).split(".")[1], token.split(".")[2]]), None),
    ):
        with pytest.raises(InvalidToken) as error:
            validator(keys=known).validate(wrong)
        assert wrong not in str(error.value)
    with pytest.raises(InvalidToken, match="could not be read yet"):
        validator(keys=Keys(None)).validate(token)


@given(st.text(st.sampled_from("abc-_.eyJ0"), max_size=60))
def test_any_text_is_refused(token):
    for one in (validator(), UnsecuredTokens(TokenRules(), CLOCK)):
        with pytest.raises(InvalidToken):
            one.validate(token)


def test_unsecured_tokens_must_say_so():
    tokens = UnsecuredTokens(TokenRules(needs_issue_time=False), CLOCK)
    assert tokens.validate(unsecured({"sub": "ann", "exp": NOW_S + 1})).principal.name == "ann"
    for wrong in (unsecured(CLAIMS, "RS256"), unsecured(CLAIMS, signature="x"), signed(CLAIMS), "a.b.", "e30.W10."):
        with pytest.raises(InvalidToken):
            tokens.validate(wrong)


@given(st.dictionaries(st.sampled_from(["sub", "exp", "iat", "nbf", "aud", "scope", "iss"]), st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5), lambda one: st.lists(one, max_size=3))))  # fmt: skip
def test_any_claims_are_accepted_or_refused(claims):
    try:
        outcome = authenticated_by(claims, TokenRules(), CLOCK.wall_ms())
    except InvalidToken:
        return
    assert outcome.principal.name == claims["sub"]
