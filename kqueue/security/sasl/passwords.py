"""The passwords of a listener's users, and the check of one, which takes the same work whoever the
user is.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping

from kqueue.security.scram_credentials import SCRAM_MECHANISMS, ScramCredential, salted_password

HASHED_BY = SCRAM_MECHANISMS["SCRAM-SHA-512"]
"""The mechanism by which passwords are stored that are not stored in clear."""


class Passwords:
    """Passwords by user: in clear, or as credentials of `HASHED_BY`.

    `is_slow`: a check takes milliseconds. One of a user without a hashed password takes as long
    where others have one.

    Args: digest: hashes before the comparison, which so takes the same time whatever the lengths.
    """

    def __init__(
        self,
        users: Mapping[str, str | ScramCredential],
        digest: Callable[[bytes, bytes], bytes] | None = None,
    ) -> None:
        self._key = secrets.token_bytes(32)
        self._digest = digest or _digest
        self._hashed = {user: known for user, known in users.items() if isinstance(known, ScramCredential)}
        self._clear = {
            user: self._digest(self._key, known.encode()) for user, known in users.items() if isinstance(known, str)
        }
        self._nobody = secrets.token_bytes(32)
        self._unused = ScramCredential(
            secrets.token_bytes(26),
            secrets.token_bytes(HASHED_BY.key_bytes),
            b"",
            max((one.iterations for one in self._hashed.values()), default=0),
        )
        self.is_slow = bool(self._hashed)

    def __repr__(self) -> str:
        return f"<Passwords of {len(self._clear) + len(self._hashed)} users>"

    def matches(self, user: str, password: str) -> bool:
        """Return whether this is the password of `user`; False for an unknown user, after the same
        work.
        """
        given = password.encode()
        clear_matches = hmac.compare_digest(self._digest(self._key, given), self._clear.get(user, self._nobody))
        if not self.is_slow:
            return clear_matches
        hashed = self._hashed.get(user, self._unused)
        salted = salted_password(HASHED_BY, given, hashed.salt, hashed.iterations)
        client_key = hmac.digest(salted, b"Client Key", HASHED_BY.hash)
        hash_matches = hmac.compare_digest(hashlib.new(HASHED_BY.hash, client_key).digest(), hashed.stored_key)
        return clear_matches | hash_matches


def _digest(key: bytes, password: bytes) -> bytes:
    return hmac.digest(key, password, "sha256")
