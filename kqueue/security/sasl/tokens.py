"""The accepted tokens of OAUTHBEARER: signed ones, by the keys of an identity provider; for
tests, unsecured ones.

Kafka accepts a signed token whose `iat` is in the future; here that is refused, as Kafka does with
unsecured tokens. Source: Kafka's BrokerJwtValidator, OAuthBearerUnsecuredValidatorCallbackHandler.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from kqueue.base.clock import Clock
from kqueue.base.errors import SettingError
from kqueue.base.extras import install_hint
from kqueue.security.principals import USER_TYPE, Principal
from kqueue.security.sasl.contract import Authenticated
from kqueue.security.sasl.oauthbearer import InvalidToken

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""Accepted signatures. Symmetric ones would make whoever can check a token able to make one."""
_EXPIRES_S_MAX = 10**11


class TokenRules(NamedTuple):
    """The claims that a token must have.

    Args:
        issuer, audiences: of which the token must have been issued by, and for; None, empty: none
            is expected, and a token that names audiences is refused.
        clock_skew_s: so much the clocks may differ, in seconds.
        scopes: that the token must have, all of them.
        subject_claim, scope_claim: names of claims.
        needs_issue_time: whether a token without `iat` is refused.
    """

    issuer: str | None = None
    audiences: Sequence[str] = ()
    clock_skew_s: float = 30
    scopes: Sequence[str] = ()
    subject_claim: str = "sub"
    scope_claim: str = "scope"
    needs_issue_time: bool = True


class SigningKeys(Protocol):
    """The public keys of an identity provider."""

    @property
    def key_set(self) -> Any:
        """The keys, as joserfc's KeySet; None: they could not be read yet."""
        ...

    def is_missing(self) -> None:
        """Read them again soon: a token names a key that is not there."""
        ...


class SignedTokens:
    """Accepts tokens that one of `keys` signed and that keep the rules; a `TokenValidator`."""

    def __init__(self, rules: TokenRules, keys: SigningKeys, clock: Clock) -> None:
        self._rules = rules
        self._keys = keys
        self._clock = clock
        load_joserfc()

    def validate(self, token: str) -> Authenticated:
        """See `TokenValidator`."""
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError, JoseError

        key_set = self._keys.key_set
        if key_set is None:
            raise InvalidToken("the keys of the identity provider could not be read yet")
        try:
            claims = jwt.decode(token, key_set, algorithms=list(ALGORITHMS)).claims
        except InvalidKeyIdError:
            self._keys.is_missing()
            raise InvalidToken("it names no key of the identity provider") from None
        except JoseError as error:
            raise InvalidToken(f"it is not a token signed by the identity provider ({error.error})") from None
        except (ValueError, TypeError, KeyError, RecursionError):  # of a hostile header or payload
            raise InvalidToken("it is not a JSON Web Token") from None
        return authenticated_by(claims, self._rules, self._clock.wall_ms())


class UnsecuredTokens:
    """Accepts tokens that nobody signed: everybody can make one. A `TokenValidator`, for tests."""

    def __init__(self, rules: TokenRules, clock: Clock) -> None:
        self._rules = rules
        self._clock = clock

    def validate(self, token: str) -> Authenticated:
        """See `TokenValidator`."""
        parts = token.split(".")
        if len(parts) != 3 or parts[2]:
            raise InvalidToken("expected an unsecured token: header.claims.")
        header, claims = (_json_of(part) for part in parts[:2])
        if header.get("alg") != "none":
            raise InvalidToken("expected an unsecured token: its algorithm is not none")
        return authenticated_by(claims, self._rules, self._clock.wall_ms())


def authenticated_by(claims: Mapping[str, Any], rules: TokenRules, now_ms: float) -> Authenticated:
    """Return whom the claims of a token authenticate. Raises InvalidToken."""
    now_s, skew_s = now_ms / 1000, rules.clock_skew_s
    # Times of a token may be finer than `now_ms`, which is cut to whole milliseconds: one that was
    # issued within this millisecond is not of the future.
    end_s = (now_ms + 1) / 1000 + skew_s
    expires_s = _seconds(claims, "exp")
    if expires_s is None:
        raise InvalidToken("it has no exp")
    if now_s >= expires_s + skew_s:
        raise InvalidToken("it has expired (exp)")
    begins_s, issued_s = _seconds(claims, "nbf"), _seconds(claims, "iat")
    if begins_s is not None and begins_s >= end_s:
        raise InvalidToken("it is not valid yet (nbf)")
    if issued_s is None and rules.needs_issue_time:
        raise InvalidToken("it has no iat")
    if issued_s is not None and issued_s >= end_s:
        raise InvalidToken("it was issued in the future (iat)")
    for name, begin_s in (("nbf", begins_s), ("iat", issued_s)):
        if begin_s is not None and expires_s < begin_s:
            raise InvalidToken(f"it expires before it begins (exp, {name})")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise InvalidToken("its issuer is not the expected one (iss)")
    audiences = _texts(claims.get("aud"))
    if (rules.audiences or audiences) and not set(audiences) & set(rules.audiences):
        raise InvalidToken("its audience is not an expected one (aud)")
    scopes = {scope for text in _texts(claims.get(rules.scope_claim)) for scope in text.split()}
    if not scopes.issuperset(rules.scopes):
        raise InvalidToken(f"it lacks a required scope ({rules.scope_claim})")
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not subject.strip() or "\0" in subject:
        raise InvalidToken(f"it names no principal ({rules.subject_claim})")
    return Authenticated(Principal(USER_TYPE, subject), expires_s * 1000)


def load_joserfc() -> Callable[[str], Any]:
    """Return the function that reads a key set from JSON. Raises SettingError: it is missing."""
    try:
        from joserfc.jwk import KeySet
    except ImportError:
        raise SettingError(f"OAUTHBEARER with signed tokens needs joserfc: {install_hint('security')}") from None

    def read(text: str) -> Any:
        return KeySet.import_key_set(json.loads(text))

    return read


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidToken(f"{name} is not a number")
    if not math.isfinite(value) or not 0 <= value <= _EXPIRES_S_MAX:
        raise InvalidToken(f"{name} is not a time")
    return float(value)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _json_of(part: str) -> dict[str, Any]:
    try:
        value = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        raise InvalidToken("it is not a JSON Web Token") from None
    if not isinstance(value, dict):
        raise InvalidToken("it is not a JSON Web Token")
    return value
