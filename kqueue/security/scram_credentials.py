"""Salted credentials of SCRAM: they prove a password, and do not contain it. Source: RFC 5802.

As in Kafka, user names and passwords are their UTF-8 bytes, without SASLprep, which other
implementations apply: a client and a broker that normalize differently would not agree.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from kqueue.security.principals import Principal

ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
"""Bounds on what is stored. Source: Kafka's ScramMechanism, ScramControlManager."""
SALT_BITS = 130
_ENCODED = re.compile(
    r"(?P<mechanism>[A-Z0-9-]+)\$(?P<iterations>[0-9]{1,9}):(?P<salt>[A-Za-z0-9+/=]+)"
    r"\$(?P<stored>[A-Za-z0-9+/=]+):(?P<server>[A-Za-z0-9+/=]+)"
)
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class ScramMechanism(NamedTuple):
    """A mechanism's name, its number in Kafka's requests, and its hash function."""

    name: str
    number: int
    hash: str

    @property
    def key_bytes(self) -> int:
        """Size of the keys in bytes."""
        return hashlib.new(self.hash).digest_size


SCRAM_MECHANISMS = {
    mechanism.name: mechanism
    for mechanism in (ScramMechanism("SCRAM-SHA-256", 1, "sha256"), ScramMechanism("SCRAM-SHA-512", 2, "sha512"))
}


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The credential that a server keeps instead of a password. With `stored_key` and one overheard
    exchange, anyone can authenticate: keep it as a secret. `repr` shows the iterations only.
    """

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


def encode_credential(mechanism: ScramMechanism, credential: ScramCredential) -> str:
    """Return ``SCRAM-SHA-512$iterations:salt$stored key:server key``. Source: RFC 5803."""
    salt, stored, server = (
        base64.b64encode(part).decode() for part in (credential.salt, credential.stored_key, credential.server_key)
    )
    return f"{mechanism.name}${credential.iterations}:{salt}${stored}:{server}"


def decode_credential(text: str) -> tuple[ScramMechanism, ScramCredential]:
    """Return what `encode_credential` wrote. Raises ValueError, without showing the text."""
    match = _ENCODED.fullmatch(text)
    mechanism = None if match is None else SCRAM_MECHANISMS.get(match["mechanism"])
    if match is None or mechanism is None:
        raise ValueError("expected SCRAM-SHA-256 or -512 $iterations:salt$stored key:server key, in base64")
    salt, stored, server = (base64.b64decode(match[part], validate=True) for part in ("salt", "stored", "server"))
    iterations = int(match["iterations"])
    if len(stored) != mechanism.key_bytes or len(server) != mechanism.key_bytes or iterations < ITERATIONS_MIN:
        raise ValueError(
            f"expected keys of {mechanism.key_bytes} bytes and at least {ITERATIONS_MIN} iterations of {mechanism.name}"
        )
    return mechanism, ScramCredential(salt, stored, server, iterations)


class ScramAccount(NamedTuple):
    """The account that a name of a SCRAM exchange stands for: a user, or the owner of a delegation
    token.

    `expires_ms`: of the token, on the wall clock; None: never.
    """

    credential: ScramCredential
    principal: Principal
    expires_ms: float | None = None


FindScramAccount = Callable[[str, str, bool], ScramAccount | None]
"""Returns the account of a mechanism's name and a user's, or a token's id where the third argument
is True; None: there is none. It answers from memory.
"""


def salted_password(mechanism: ScramMechanism, password: bytes, salt: bytes, iterations: int) -> bytes:
    """Return the salted password. Slow on purpose: milliseconds at the least number of
    iterations.
    """
    return hashlib.pbkdf2_hmac(mechanism.hash, password, salt, iterations)


def credential_of_salted(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return the credential of a salted password."""
    client_key = hmac.digest(salted, b"Client Key", mechanism.hash)
    return ScramCredential(
        salt,
        hashlib.new(mechanism.hash, client_key).digest(),
        hmac.digest(salted, b"Server Key", mechanism.hash),
        iterations,
    )


def make_credential(
    mechanism: ScramMechanism, password: str, iterations: int = ITERATIONS_MIN, salt: bytes | None = None
) -> ScramCredential:
    """Return a credential of `password`. Slow on purpose. `salt` None: a random one."""
    salt = salt if salt is not None else number_salt(secrets.randbits(SALT_BITS))
    salted = salted_password(mechanism, password.encode(), salt, iterations)
    return credential_of_salted(mechanism, salted, salt, iterations)


def number_salt(number: int) -> bytes:
    """Return a salt in the form of those that Kafka's tools make: a number to base 36."""
    digits = []
    while number:
        number, digit = divmod(number, 36)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits)).encode()
