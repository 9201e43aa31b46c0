"""The SCRAM credentials of a cluster, in its metadata store: one entry for each user.

    /scram/<user>   {"credentials": ["SCRAM-SHA-256$4096:<salt>$<stored key>:<server key>", ...]}

All brokers observe them, so a new password counts everywhere as soon as a broker has refreshed. An
entry that can't be read gives nobody access: it is logged once, and an alteration replaces it.
Durability: a change of any number of users is one commit, on disk when its promise is done; after a
crash all of it is stored, or nothing. Source: Kafka's ScramControlManager.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from kqueue.base import events
from kqueue.base.errors import Conflict, CorruptData, KqueueError
from kqueue.base.promise import Promise
from kqueue.broker.access.security_keys import SCRAM_PREFIX
from kqueue.broker.metadata.cache import MetadataCache
from kqueue.security.errors import UnacceptableCredential
from kqueue.security.made_up_credentials import CredentialForms
from kqueue.security.scram_credentials import (
    ScramCredential,
    ScramMechanism,
    decode_credential,
    encode_credential,
)
from kqueue.security.scram_validation import check_iterations, check_salt

logger = logging.getLogger("kqueue.security")
PREFIX = SCRAM_PREFIX
USERS_MAX = 100_000
"""Users with credentials; all of them are in the memory of every broker."""
ATTEMPTS_MAX = 20
"""Commits of one change, of which another broker may be the first each time."""

Credentials = Mapping[ScramMechanism, ScramCredential]


class ScramAlteration(NamedTuple):
    """A change of one user's credential; None: it is deleted."""

    user: str
    mechanism: ScramMechanism
    credential: ScramCredential | None


class ScramUsers:
    """The stored credentials, as of the last commit or refresh. `forms`: what they look like."""

    _metadata: MetadataCache

    def __init__(self) -> None:
        self.forms = CredentialForms()
        self._users: dict[str, Credentials] = {}
        self._unreadable: set[str] = set()

    def load(self, metadata: MetadataCache) -> None:
        """Take over what the metadata cache has loaded, and follow its changes. Call it once."""
        self._metadata = metadata
        self._apply(metadata.with_prefix(PREFIX))
        metadata.observe(PREFIX, self._apply)

    def __repr__(self) -> str:
        return f"<ScramUsers: {len(self._users)} users>"

    def users(self) -> list[str]:
        """Return the names of all users with credentials, sorted."""
        return sorted(self._users)

    def of_user(self, user: str) -> Credentials:
        """Return a user's credentials; empty for one that is unknown, or can't be read."""
        return self._users.get(user, {})

    def is_known(self, user: str, mechanism: ScramMechanism) -> bool:
        """Whether there is something to delete: a credential, or an entry that can't be read."""
        return user in self._unreadable or mechanism in self.of_user(user)

    def alter(self, alterations: Sequence[ScramAlteration]) -> Promise[None]:
        """Store or delete checked credentials, all of them or none. What is deleted already stays
        so.

        Raises: UnacceptableCredential: more than `USERS_MAX` users. The promise: StorageFailed,
            Conflict.
        """
        new = {row.user for row in alterations if row.credential is not None} - self._users.keys()
        if new and len(self._users) + len(new) > USERS_MAX:
            raise UnacceptableCredential(f"There are {len(self._users)} users already, at most {USERS_MAX} are stored")
        promise: Promise[None] = Promise()
        self._commit(alterations, promise, ATTEMPTS_MAX)
        return promise

    def _commit(self, alterations: Sequence[ScramAlteration], promise: Promise[None], attempts: int) -> None:
        puts = altered_entries(alterations, self._users, self._unreadable)
        if not puts:
            self._metadata.resolve(promise, None)
            return

        def done(error: KqueueError | None) -> None:
            if error is None:
                self._metadata.resolve(promise, None)
            elif isinstance(error, Conflict) and attempts > 1:
                self._commit(alterations, promise, attempts - 1)  # another broker changed a user, who is known now
            else:
                self._metadata.fail(promise, error)

        self._metadata.commit("alter SCRAM credentials", puts, done)

    def _apply(self, changed: Mapping[str, bytes | None]) -> None:
        for user, value in changed.items():
            self._count(self._users.pop(user, {}), -1)
            self._unreadable.discard(user)
            if value is None:
                continue
            try:
                self._users[user] = credentials = decode_user(value)
                self._count(credentials, 1)
            except CorruptData as error:
                self._unreadable.add(user)
                events.SCRAM_CREDENTIALS_DAMAGED.log(
                    logger,
                    "the SCRAM credentials of user %.300r are damaged, so the user can't authenticate by them: %s; "
                    "set the password again, or remove the user",
                    user=user,
                    error=error,
                )

    def _count(self, credentials: Credentials, more: int) -> None:
        for mechanism, credential in credentials.items():
            self.forms.add(mechanism, credential, more)


def altered_entries(
    alterations: Sequence[ScramAlteration], users: Mapping[str, Credentials], unreadable: Collection[str] = ()
) -> dict[str, bytes | None]:
    """Return the new value of each key that changes; None: the user has no credential left.

    Args:
        users: all, or those that are altered, as they are stored.
        unreadable: users whose entries are damaged.
    """
    after: dict[str, dict[ScramMechanism, ScramCredential]] = {}
    for user, mechanism, credential in alterations:
        credentials = after.setdefault(user, dict(users.get(user, {})))
        if credential is None:
            credentials.pop(mechanism, None)
        else:
            credentials[mechanism] = credential
    return {
        f"{PREFIX}{user}": encode_user(credentials) if credentials else None
        for user, credentials in after.items()
        if credentials != users.get(user, {}) or user in unreadable
    }


def encode_user(credentials: Credentials) -> bytes:
    """Return the value of one user's entry."""
    texts = [encode_credential(mechanism, credential) for mechanism, credential in sorted(credentials.items())]
    return json.dumps({"credentials": texts}).encode()


def decode_user(value: bytes) -> Credentials:
    """Return what `encode_user` wrote.

    Raises: CorruptData: anything that it did not write, without the content in its message.
    """
    try:
        texts = json.loads(value)["credentials"]
        credentials = dict(decode_credential(text) for text in texts)
        for credential in credentials.values():
            check_iterations(credential.iterations)
            check_salt(credential.salt)
    except (ValueError, KeyError, TypeError, RecursionError, UnacceptableCredential):
        raise CorruptData("the entry in the metadata store is not what was written") from None
    if not credentials or len(credentials) != len(texts):
        raise CorruptData("the entry in the metadata store has no credential, or two for one mechanism")
    return credentials
