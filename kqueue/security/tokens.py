"""Delegation tokens (KIP-48): with one, a program acts as its owner without the owner's password.

A client authenticates by SCRAM with the token's id as user, the HMAC in base64 as password, and the
extension ``tokenauth=true``. Whoever has the secret key of the brokers can compute the HMAC of each
id, so it is not stored. What is stored is signed by a MAC with the same key: with another key, no
token of before is valid. Source: Kafka's DelegationTokenControlManager, DelegationTokenManager.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kqueue.base.errors import CorruptData
from kqueue.base.settings import LONG_MAX
from kqueue.security.errors import TokenExpired, TokenOwnerMismatch
from kqueue.security.principals import Principal
from kqueue.security.scram_credentials import (
    SCRAM_MECHANISMS,
    ScramCredential,
    decode_credential,
    encode_credential,
    make_credential,
)

_SIGNED = b"kqueue delegation token\0"


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """One token. Times are ms since 1970. `requester` created it, for `owner`; `renewers` may renew
    and end it, as the owner may. `credentials`: of its HMAC, by the name of the mechanism.
    """

    id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int
    credentials: Mapping[str, ScramCredential] = field(repr=False)

    def is_expired(self, now_ms: int) -> bool:
        """Whether it has ended."""
        return min(self.expiry_ms, self.max_ms) < now_ms

    def is_of(self, principal: Principal) -> bool:
        """Whether this client may always see it: the owner, the requester, a renewer."""
        return principal in (self.owner, self.requester, *self.renewers)

    def check_renewer(self, principal: Principal) -> None:
        """Raise TokenOwnerMismatch for a client that may not renew and end it."""
        if principal not in (self.owner, *self.renewers):
            raise TokenOwnerMismatch(f"{principal} neither owns nor may renew this token")

    def renewed(self, now_ms: int, period_ms: int) -> DelegationToken:
        """Return the token as it ends `period_ms` from now, or at its maximum.

        Raises: TokenExpired: it has ended.
        """
        if self.is_expired(now_ms):
            raise TokenExpired("the delegation token has expired")
        return replace(self, expiry_ms=min(self.max_ms, now_ms + period_ms))


def new_token_id() -> str:
    """Return a random id: 22 characters of URL-safe base64, the first one no ``-``."""
    while True:
        token_id = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        if not token_id.startswith("-"):
            return token_id


def token_hmac(secret_key: str, token_id: str) -> bytes:
    """Return the secret of a token: whoever has it can authenticate as the owner."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")


def token_credentials(token_mac: bytes) -> dict[str, ScramCredential]:
    """Return the credentials of a token's HMAC. Takes milliseconds: a broker calls it in a job."""
    password = base64.b64encode(token_mac).decode()
    return {name: make_credential(mechanism, password) for name, mechanism in SCRAM_MECHANISMS.items()}


def end_ms(now_ms: int, period_ms: int) -> int:
    """Return `period_ms` from now, as far as a message can say it."""
    return min(now_ms + period_ms, LONG_MAX)


def encode_token(token: DelegationToken, secret_key: str) -> bytes:
    """Return a token's entry in the metadata store."""
    content: dict[str, Any] = {
        "owner": _principal_text(token.owner),
        "requester": _principal_text(token.requester),
        "renewers": [_principal_text(principal) for principal in token.renewers],
        "issue_ms": token.issue_ms,
        "expiry_ms": token.expiry_ms,
        "max_ms": token.max_ms,
        "credentials": [
            encode_credential(SCRAM_MECHANISMS[name], credential) for name, credential in token.credentials.items()
        ],
    }
    return json.dumps({"token": content, "mac": _mac(secret_key, token.id, content)}).encode()


def decode_token(token_id: str, value: bytes, secret_key: str) -> DelegationToken:
    """Return what `encode_token` wrote with the same key.

    Raises: CorruptData: anything else, without the content in its message.
    """
    try:
        stored = json.loads(value)
        content, mac = stored["token"], str(stored["mac"])
        if not hmac.compare_digest(_mac(secret_key, token_id, content).encode(), mac.encode()):
            raise CorruptData("its signature is wrong: it is damaged, or of another delegation.token.secret.key")
        credentials = dict(decode_credential(text) for text in content["credentials"])
        return DelegationToken(
            token_id,
            _principal(content["owner"]),
            _principal(content["requester"]),
            tuple(_principal(pair) for pair in content["renewers"]),
            int(content["issue_ms"]),
            int(content["expiry_ms"]),
            int(content["max_ms"]),
            {mechanism.name: credential for mechanism, credential in credentials.items()},
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CorruptData("it is not what was written") from None


def stored_end_ms(value: bytes) -> int | None:
    """Return the latest end that an entry says, which nobody has vouched for: a token of another
    key ends too. None: it says none.
    """
    try:
        return int(json.loads(value)["token"]["max_ms"])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None


def _mac(secret_key: str, token_id: str, content: object) -> str:
    signed = _SIGNED + token_id.encode() + json.dumps(content, sort_keys=True).encode()
    return hmac.digest(secret_key.encode(), signed, "sha256").hex()


def _principal_text(principal: Principal) -> list[str]:
    return [principal.type, principal.name]


def _principal(pair: object) -> Principal:
    if not isinstance(pair, list):
        raise TypeError(pair)
    type_, name = pair
    return Principal(str(type_), str(name))
