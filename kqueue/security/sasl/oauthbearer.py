"""OAUTHBEARER: a token that an identity provider signed. Source: RFC 7628, KIP-255.

client: n,[a=<authorization id>],^Aauth=Bearer <token>^A[key=value^A]...^A     (^A: byte 1)
server: empty: authenticated; or {"status":"invalid_token"}, which the client acknowledges by ^A
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Protocol

from kqueue.base.text import java_text
from kqueue.security.errors import SaslAuthenticationFailed
from kqueue.security.sasl.contract import Authenticated, SlowStep, malformed

OAUTHBEARER = "OAUTHBEARER"
TOKEN_CHARACTERS_MAX = 64 * 1024
REFUSED = json.dumps({"status": "invalid_token"}, separators=(",", ":"))
ACKNOWLEDGED = b"\x01"
_PAIR = r"[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01"
_FIRST = re.compile(rf"n,(?:a=(?P<authzid>(?:[^,=\0\x01]|=2C|=3D)+))?,\x01(?P<pairs>(?:{_PAIR})*)\x01")
_BEARER = re.compile(r"bearer +(?P<token>[-_.a-zA-Z0-9]+)", re.IGNORECASE)
_EXPECTED = "auth=Bearer and a token, framed as in RFC 7628,"


class InvalidToken(Exception):
    """The token is not accepted. The message says why, for the broker's log; it has nothing of the
    token but the names of its claims.
    """


class TokenValidator(Protocol):
    """Decides which tokens are accepted. `repr` shows no secret."""

    def validate(self, token: str) -> Authenticated:
        """Return whose token it is and when it ends. Raises InvalidToken."""
        ...


class OAuthBearerServer:
    """See `ServerMechanism`."""

    name = OAUTHBEARER

    def __init__(self, validator: TokenValidator) -> None:
        self._validator = validator
        self.refusal: SaslAuthenticationFailed | None = None
        self.authenticated: Authenticated | None = None

    def respond(self, message: bytes) -> bytes | SlowStep:
        """See `ServerMechanism`. A refused token is answered, and refused after the client's
        acknowledgement.
        """
        if self.refusal is not None:
            raise self.refusal
        token, authorization_id = _token_of(message)
        try:
            authenticated = self._validator.validate(token)
            if authorization_id not in (None, authenticated.principal.name):
                raise InvalidToken("the authorization id is not the token's subject")
        except InvalidToken as error:
            self.refusal = SaslAuthenticationFailed(REFUSED, detail=str(error))
            return REFUSED.encode()
        self.authenticated = authenticated
        return b""


class OAuthBearerClient:
    """See `ClientMechanism`. `extensions`: for the server, by names of letters."""

    name = OAUTHBEARER

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        self._token = token
        self._extensions = dict(extensions or {})
        self.is_complete = False

    def __repr__(self) -> str:
        return "<OAuthBearerClient>"

    def first(self) -> bytes:
        """See `ClientMechanism`."""
        pairs = {"auth": f"Bearer {self._token}", **self._extensions}
        return f"n,,\x01{''.join(f'{key}={value}{chr(1)}' for key, value in pairs.items())}\x01".encode()

    def respond(self, message: bytes) -> bytes | None:
        """See `ClientMechanism`. A refusal is acknowledged, so that the server reports it."""
        if message:
            return ACKNOWLEDGED
        self.is_complete = True
        return None


def _token_of(message: bytes) -> tuple[str, str | None]:
    """Return the token and the authorization id. Raises SaslAuthenticationFailed."""
    first = _FIRST.fullmatch(java_text(bytes(message)))
    if first is None:
        raise malformed(OAUTHBEARER, _EXPECTED)
    pairs = [pair.partition("=") for pair in first["pairs"].split("\x01")[:-1]]
    values = [value for key, _, value in pairs if key == "auth"]
    bearer = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
    if bearer is None or len(bearer["token"]) > TOKEN_CHARACTERS_MAX:
        raise malformed(OAUTHBEARER, _EXPECTED)
    authorization_id = first["authzid"]
    if authorization_id is not None:
        authorization_id = authorization_id.replace("=2C", ",").replace("=3D", "=")
    return bearer["token"], authorization_id
