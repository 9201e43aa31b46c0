"""SCRAM-SHA-256 and SCRAM-SHA-512, without channel binding. Source: RFC 5802, RFC 7677; the
extension ``tokenauth=true`` of delegation tokens: KIP-48.

    client: n,,n=<user>,r=<nonce>                     client first
    server: r=<nonce+nonce>,s=<salt>,i=<iterations>
    client: c=biws,r=<nonce+nonce>,p=<proof>          client final
    server: v=<signature>

An unknown user gets the same exchange with made-up salt and iterations, which fails at the proof.
The broker computes a few hashes; only clients iterate.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets

from kqueue.base.text import java_text
from kqueue.security.errors import SaslAuthenticationFailed
from kqueue.security.made_up_credentials import MadeUpCredentials
from kqueue.security.sasl.contract import Authenticated, SlowStep, invalid_credentials, malformed
from kqueue.security.scram_credentials import (
    ITERATIONS_MIN,
    FindScramAccount,
    ScramAccount,
    ScramCredential,
    ScramMechanism,
    salted_password,
)

TOKEN_EXTENSION = "tokenauth"
CLIENT_ITERATIONS_MAX = 1_000_000
"""A server that asks for more would keep its clients busy for seconds."""
_NAME = r"(?:[^,=\0]|=2C|=3D)+"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS = r"(?:,[A-Za-z]+=[^,\0]+)*"
_CLIENT_FIRST = re.compile(
    rf"(?P<header>[ny],(?:a=(?P<authzid>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<user>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<bare>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_SERVER_FIRST = re.compile(
    rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[1-9][0-9]{{0,8}}){_EXTENSIONS}"
)


class ScramServer:
    """See `ServerMechanism`.

    Args: made_up: credentials of users that do not exist.
    """

    def __init__(self, mechanism: ScramMechanism, find: FindScramAccount, made_up: MadeUpCredentials) -> None:
        self.name = mechanism.name
        self.authenticated: Authenticated | None = None
        self.refusal: SaslAuthenticationFailed | None = None
        self._mechanism = mechanism
        self._find = find
        self._made_up = made_up
        self._account: ScramAccount | None = None
        self._credential: ScramCredential | None = None
        self._header = self._nonce = self._said = ""

    def respond(self, message: bytes) -> bytes | SlowStep:
        """See `ServerMechanism`."""
        return self._first(message) if self._credential is None else self._final(message, self._credential)

    def _first(self, message: bytes) -> bytes:
        expected = "a client-first-message without channel binding"
        first = _CLIENT_FIRST.fullmatch(java_text(bytes(message)))
        if first is None:
            raise malformed(self.name, expected)
        user = _unescaped(first["user"])
        if first["authzid"] is not None and _unescaped(first["authzid"]) != user:
            raise malformed(self.name, "the authorization id of the user, or none,")
        by_token = _extensions(first["extensions"]).get(TOKEN_EXTENSION, "").lower() == "true"
        made_up = self._made_up.credential(self._mechanism, user, by_token=by_token)
        self._account = self._find(self.name, user, by_token)
        credential = self._credential = made_up if self._account is None else self._account.credential
        self._header = first["header"]
        self._nonce = first["nonce"] + secrets.token_urlsafe(24)
        salt = base64.b64encode(credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._said = f"{first['bare']},{answer}"
        return answer.encode()

    def _final(self, message: bytes, credential: ScramCredential) -> bytes:
        expected = "a client-final-message with the nonce and binding of the first"
        final = _CLIENT_FINAL.fullmatch(java_text(bytes(message)))
        if final is None or final["nonce"] != self._nonce or _bytes(final["binding"]) != self._header.encode():
            raise malformed(self.name, expected)
        hash_, proof = self._mechanism.hash, _bytes(final["proof"])
        signed = f"{self._said},{final['bare']}".encode()
        signature = hmac.digest(credential.stored_key, signed, hash_)
        if proof is None or len(proof) != len(signature):
            raise malformed(self.name, f"a proof of {len(signature)} bytes")
        client_key = _xor(signature, proof)
        matches = hmac.compare_digest(hashlib.new(hash_, client_key).digest(), credential.stored_key)
        answer = b"v=" + base64.b64encode(hmac.digest(credential.server_key, signed, hash_))
        if not matches or self._account is None:
            raise invalid_credentials(self.name)
        self.authenticated = Authenticated(self._account.principal, self._account.expires_ms)
        return answer


class ScramClient:
    """See `ClientMechanism`. `by_token`: user and password are a token's id and HMAC."""

    def __init__(self, mechanism: ScramMechanism, user: str, password: str, *, by_token: bool = False) -> None:
        self.name = mechanism.name
        self.is_complete = False
        self._mechanism = mechanism
        self._user = user
        self._password = password
        self._nonce = secrets.token_urlsafe(24)
        extension = f",{TOKEN_EXTENSION}=true" if by_token else ""
        self._bare = f"n={_escaped(user)},r={self._nonce}{extension}"
        self._signature: bytes | None = None

    def __repr__(self) -> str:
        return f"<ScramClient of {self._user}>"

    def first(self) -> bytes:
        """See `ClientMechanism`."""
        return f"n,,{self._bare}".encode()

    def respond(self, message: bytes) -> bytes | None:
        """See `ClientMechanism`."""
        if self._signature is not None:
            self._verify(message, self._signature)
            return None
        first = _SERVER_FIRST.fullmatch(java_text(bytes(message)))
        salt = None if first is None else _bytes(first["salt"])
        if first is None or salt is None:
            raise malformed(self.name, "a server-first-message")
        nonce, iterations = first["nonce"], int(first["iterations"])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise malformed(self.name, "a nonce that continues the client's")
        if not ITERATIONS_MIN <= iterations <= CLIENT_ITERATIONS_MAX:
            raise malformed(self.name, f"from {ITERATIONS_MIN} to {CLIENT_ITERATIONS_MAX} iterations")
        hash_ = self._mechanism.hash
        salted = salted_password(self._mechanism, self._password.encode(), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", hash_)
        bare = f"c=biws,r={nonce}"
        signed = f"{self._bare},{first[0]},{bare}".encode()
        proof = _xor(client_key, hmac.digest(hashlib.new(hash_, client_key).digest(), signed, hash_))
        self._signature = hmac.digest(hmac.digest(salted, b"Server Key", hash_), signed, hash_)
        return f"{bare},p={base64.b64encode(proof).decode()}".encode()

    def _verify(self, message: bytes, signature: bytes) -> None:
        text = java_text(bytes(message))
        sent = _bytes(text[2:].partition(",")[0]) if text.startswith("v=") else None
        if sent is None or not hmac.compare_digest(sent, signature):
            raise SaslAuthenticationFailed("the server did not prove that it knows the password")
        self.is_complete = True


def _extensions(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in text.split(",") if part)


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _bytes(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return None


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
