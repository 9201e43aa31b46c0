"""The delegation tokens of a cluster, in its metadata store: one entry each, see `security.tokens`.

    /tokens/<id>   {"token": {...}, "mac": ...}

All brokers observe them. An entry that is damaged, or of another key, is unknown to clients, and
the log says so. Ended tokens are unknown at once, and their entries are removed from time to time,
those of other keys too. Durability: a change is one commit of one entry, on disk when its promise
is done; a crash leaves all of it or nothing. Source: Kafka's DelegationTokenControlManager.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.base.errors import Conflict, CorruptData, KqueueError, PolicyViolation, StorageFailed
from kqueue.base.jobs import IoJob, Jobs
from kqueue.base.promise import Promise
from kqueue.base.timers import Timers
from kqueue.broker.access.security_keys import TOKENS_PREFIX
from kqueue.broker.metadata.cache import MetadataCache
from kqueue.security.errors import TokenNotFound, TokensDisabled
from kqueue.security.principals import Principal
from kqueue.security.scram_credentials import ScramAccount, ScramCredential
from kqueue.security.token_config import CHECK_INTERVAL_MS, EXPIRY_TIME_MS, MAX_LIFETIME_MS, SECRET_KEY
from kqueue.security.tokens import (
    DelegationToken,
    decode_token,
    encode_token,
    end_ms,
    new_token_id,
    stored_end_ms,
    token_credentials,
    token_hmac,
)

R = TypeVar("R")
logger = logging.getLogger("kqueue.security")
PREFIX = TOKENS_PREFIX
TOKENS_MAX = 100_000
"""Tokens of a cluster; all of them are in the memory of every broker."""
TOKENS_OF_REQUESTER_MAX = 1_000
"""Tokens that one client may have created: any client that authenticated may create some."""
REMOVED_MAX = 1_000
"""Ended tokens that one commit removes."""
JOB_QUEUE = "delegation tokens"


class CreatedToken(NamedTuple):
    """A new token, and its secret."""

    token: DelegationToken
    hmac: bytes

    def __repr__(self) -> str:
        return f"CreatedToken({self.token!r})"


class TokenSurroundings(NamedTuple):
    """The part of its broker that the tokens use."""

    config: Config
    clock: Clock
    jobs: Jobs
    timers: Timers


class DelegationTokens:
    """The stored tokens, as of the last commit or refresh.

    Args: surroundings: None: there are no tokens.
    """

    _metadata: MetadataCache
    _around: TokenSurroundings

    def __init__(self, surroundings: TokenSurroundings | None = None) -> None:
        self._tokens: dict[str, DelegationToken] = {}
        self._ids: dict[bytes, str] = {}  # by the hash of the HMAC, so that no look-up compares secrets
        self._counts: dict[Principal, int] = {}
        self._unreadable: dict[str, int | None] = {}  # until when entries may be of use to others
        self._secret_key: str | None = None
        if surroundings is not None:
            self._around = surroundings
            self._secret_key = surroundings.config[SECRET_KEY] or None

    def __repr__(self) -> str:
        return f"<DelegationTokens: {len(self._tokens)} tokens>"

    def load(self, metadata: MetadataCache) -> None:
        """Take over what the metadata cache has loaded, and follow its changes. Call it once."""
        self._metadata = metadata
        if self._secret_key is None:
            return
        self._apply(metadata.with_prefix(PREFIX))
        metadata.observe(PREFIX, self._apply)
        self._around.timers.every(self._around.config[CHECK_INTERVAL_MS], self.remove_expired)

    def all(self) -> list[DelegationToken]:
        """Return all tokens that have not ended. Raises TokensDisabled."""
        self._key()
        now_ms = self._around.clock.wall_ms()
        return [token for token in self._tokens.values() if not token.is_expired(now_ms)]

    def hmac_of(self, token: DelegationToken) -> bytes:
        """Return a token's secret."""
        return token_hmac(self._key(), token.id)

    def find_account(self, mechanism: str, token_id: str) -> ScramAccount | None:
        """Return as whom a token authenticates a client; None: it is unknown, or has ended."""
        token = self._tokens.get(token_id)
        if token is None or token.is_expired(self._around.clock.wall_ms()):
            return None
        credential = token.credentials.get(mechanism)
        if credential is None:
            return None
        owner = Principal(token.owner.type, token.owner.name, by_token=True)
        return ScramAccount(credential, owner, min(token.expiry_ms, token.max_ms))

    def create(
        self, owner: Principal, requester: Principal, renewers: Sequence[Principal], lifetime_ms: int
    ) -> Promise[CreatedToken]:
        """Create a token of checked principals. `lifetime_ms`: at most; 0 or less: the setting's.

        Raises: TokensDisabled. PolicyViolation: too many tokens. The promise: StorageFailed.
        """
        key, config = self._key(), self._around.config
        if self._counts.get(requester, 0) >= TOKENS_OF_REQUESTER_MAX or len(self._tokens) >= TOKENS_MAX:
            raise PolicyViolation("too many delegation tokens: let some expire, or expire them")
        now_ms = self._around.clock.wall_ms()
        longest_ms = config[MAX_LIFETIME_MS]
        max_ms = end_ms(now_ms, min(lifetime_ms, longest_ms) if lifetime_ms > 0 else longest_ms)
        expiry_ms = min(max_ms, end_ms(now_ms, config[EXPIRY_TIME_MS]))
        token_id = new_token_id()
        mac = token_hmac(key, token_id)
        promise: Promise[CreatedToken] = Promise()
        self._count(requester, 1)  # it counts while it is made, so that many requests at once make no more

        def finish(credentials: dict[str, ScramCredential] | None, error: BaseException | None) -> None:
            if credentials is None:
                failure = error if isinstance(error, KqueueError) else StorageFailed(f"no token was made: {error!r}")
                self._count(requester, -1)
                self._metadata.fail(promise, failure)
                return
            token = DelegationToken(
                token_id, _plain(owner), _plain(requester), tuple(renewers), now_ms, expiry_ms, max_ms, credentials
            )
            created = CreatedToken(token, mac)
            self._put("create a delegation token", token, promise, created, lambda: self._count(requester, -1))

        job = IoJob("make a delegation token", lambda: token_credentials(mac), finish, JOB_QUEUE)
        self._around.jobs.submit(job)
        return promise

    def renew(self, principal: Principal, mac: bytes, period_ms: int) -> Promise[int]:
        """Let a token end `period_ms` from now, at most the setting's and the token's own maximum;
        return its end. 0 or less: the setting's.

        Raises: TokensDisabled, TokenNotFound, TokenExpired, TokenOwnerMismatch. The promise:
            StorageFailed, Conflict.
        """
        token, now_ms = self._of_hmac(mac), self._around.clock.wall_ms()
        longest_ms: int = self._around.config[EXPIRY_TIME_MS]
        renewed = token.renewed(now_ms, min(period_ms, longest_ms) if period_ms > 0 else longest_ms)
        token.check_renewer(principal)
        promise: Promise[int] = Promise()
        self._put("renew a delegation token", renewed, promise, renewed.expiry_ms)
        return promise

    def expire(self, principal: Principal, mac: bytes, period_ms: int) -> Promise[int]:
        """Let a token end `period_ms` from now; negative: at once, and its end is `period_ms`, as
        Kafka says it. Raises as `renew`.
        """
        token = self._of_hmac(mac)
        token.check_renewer(principal)
        promise: Promise[int] = Promise()
        if period_ms < 0:
            self._commit("expire a delegation token", {f"{PREFIX}{token.id}": None}, promise, period_ms)
            return promise
        ending = token.renewed(self._around.clock.wall_ms(), period_ms)
        self._put("expire a delegation token", ending, promise, ending.expiry_ms)
        return promise

    def remove_expired(self) -> None:
        """Remove tokens that have ended from the store; those of another broker at the same time
        are left to the next call.
        """
        now_ms = self._around.clock.wall_ms()
        ended = [token.id for token in self._tokens.values() if token.is_expired(now_ms)]
        ended += [token_id for token_id, end in self._unreadable.items() if end is not None and end <= now_ms]
        del ended[REMOVED_MAX:]
        if not ended:
            return

        def done(error: KqueueError | None) -> None:
            if error is None and len(ended) == REMOVED_MAX:
                self.remove_expired()
            elif error is not None and not isinstance(error, Conflict):
                events.TOKENS_NOT_REMOVED.log(
                    logger, "%d ended delegation tokens could not be removed: %s", tokens=len(ended), error=error
                )

        puts = {f"{PREFIX}{token_id}": None for token_id in ended}
        self._metadata.commit("remove ended delegation tokens", puts, done)

    def _key(self) -> str:
        if self._secret_key is None:
            raise TokensDisabled(f"the broker has no {SECRET_KEY}")
        return self._secret_key

    def _of_hmac(self, mac: bytes) -> DelegationToken:
        self._key()
        token_id = self._ids.get(hashlib.sha256(mac).digest())
        if token_id is None:
            raise TokenNotFound("no delegation token has this HMAC")
        return self._tokens[token_id]

    def _put(
        self,
        what: str,
        token: DelegationToken,
        promise: Promise[R],
        result: R,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        value = encode_token(token, self._key())
        self._commit(what, {f"{PREFIX}{token.id}": value}, promise, result, ended)

    def _commit(
        self,
        what: str,
        puts: Mapping[str, bytes | None],
        promise: Promise[R],
        result: R,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        """Store `puts`; call `ended`, then resolve `promise` with `result`, or fail it."""

        def done(error: KqueueError | None) -> None:
            ended()
            if error is None:
                self._metadata.resolve(promise, result)
            else:
                self._metadata.fail(promise, error)

        self._metadata.commit(what, puts, done)

    def _apply(self, changed: Mapping[str, bytes | None]) -> None:
        key = self._key()
        unreadable: dict[str, CorruptData] = {}
        for token_id, value in changed.items():
            mac_hash = hashlib.sha256(token_hmac(key, token_id)).digest()
            former = self._tokens.pop(token_id, None)
            self._unreadable.pop(token_id, None)
            if former is not None:
                del self._ids[mac_hash]
                self._count(former.requester, -1)
            if value is None:
                continue
            try:
                token = decode_token(token_id, value, key)
            except CorruptData as error:
                unreadable[token_id] = error
                self._unreadable[token_id] = stored_end_ms(value)
                continue
            self._tokens[token_id] = token
            self._ids[mac_hash] = token_id
            self._count(token.requester, 1)
        if unreadable:
            first, reason = next(iter(unreadable.items()))
            events.TOKENS_UNREADABLE.log(
                logger,
                "%d delegation tokens can't be used; the first is %.100r: %s",
                tokens=len(unreadable),
                first=first,
                reason=reason,
            )

    def _count(self, requester: Principal, more: int) -> None:
        count = self._counts.get(requester, 0) + more
        if count:
            self._counts[requester] = count
        else:
            del self._counts[requester]


def _plain(principal: Principal) -> Principal:
    return Principal(principal.type, principal.name)
