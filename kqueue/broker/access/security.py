"""Access control of one broker: its authorizer, credentials, quotas and tokens.

ACLs, quotas, users and tokens come on first use, with the modules that they import: a broker that
has none of them starts faster, and is smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.base.jobs import Jobs
from kqueue.base.slice_queue import SliceQueue
from kqueue.base.timers import Timers
from kqueue.broker.access.security_keys import ACLS_PREFIX, QUOTAS_PREFIX, SCRAM_PREFIX, TOKENS_PREFIX
from kqueue.broker.metadata.cache import MetadataCache
from kqueue.security.audit import AuditLog
from kqueue.security.principals import USER_TYPE, Principal
from kqueue.security.token_config import SECRET_KEY

if TYPE_CHECKING:
    from kqueue.broker.access.acls import Acls
    from kqueue.broker.access.client_quotas import ClientQuotas
    from kqueue.broker.access.delegation_tokens import DelegationTokens
    from kqueue.broker.access.scram_users import ScramUsers
    from kqueue.security.authorizer import Authorizer
    from kqueue.security.scram_credentials import ScramAccount


@dataclass(slots=True)
class BrokerSecurity:
    """Access control of one broker.

    `authorizer`: set before the broker starts; None: every client may do everything. `audit`: where
    decisions are written; None: nowhere. `active_quotas`: the quotas while some bounds users or
    client ids, else None.
    """

    authorizer: Authorizer | None = None
    audit: AuditLog | None = None
    active_quotas: ClientQuotas | None = None
    _surroundings: tuple[Config, Clock, Jobs, Timers] | None = field(default=None, repr=False)
    _metadata: MetadataCache | None = field(default=None, repr=False)
    _acls: Acls | None = None
    _quotas: ClientQuotas | None = None
    _scram: ScramUsers | None = None
    _tokens: DelegationTokens | None = None
    _quota_observers: list[Callable[[ClientQuotas], None]] = field(default_factory=list, repr=False)

    @classmethod
    def of(cls, config: Config, clock: Clock, jobs: Jobs, timers: Timers) -> BrokerSecurity:
        """Return it for a broker with these settings, without an authorizer."""
        return cls(_surroundings=(config, clock, jobs, timers))

    def load(self, metadata: MetadataCache) -> None:
        """Read what the metadata store has, before the broker serves. Raises: StorageFailed."""
        self._metadata = metadata
        if self._acls is not None:
            self._acls.load(metadata)
        elif metadata.with_prefix(ACLS_PREFIX):
            _ = self.acls
        if metadata.with_prefix(QUOTAS_PREFIX):
            _ = self.quotas
        else:
            metadata.observe(QUOTAS_PREFIX, self._quotas_changed)
        if metadata.with_prefix(SCRAM_PREFIX):
            _ = self.scram  # the log names damaged entries before a client needs them
        if self._surroundings is not None and self._surroundings[0][SECRET_KEY]:
            _ = self.tokens  # ended ones are removed from time to time

    @property
    def throttled_ms(self) -> Mapping[str, int]:
        """For how long clients were held back since the start, by the quota."""
        return {} if self._quotas is None else self._quotas.throttled_ms

    @property
    def acls(self) -> Acls:
        """The ACLs of the metadata store, by which the standard authorizer decides."""
        if self._acls is None:
            from kqueue.broker.access.acls import Acls

            slices = None
            if self._surroundings is not None:
                _, clock, _, timers = self._surroundings
                slices = SliceQueue(timers, clock)
            self._acls = Acls(slices)
            if self._metadata is not None:
                self._acls.load(self._metadata)
        return self._acls

    @property
    def quotas(self) -> ClientQuotas:
        """Bounds on clients."""
        if self._quotas is None:
            from kqueue.broker.access.client_quotas import ClientQuotas, QuotaWindows

            if self._surroundings is None:
                self._quotas = ClientQuotas()
            else:
                config, clock, _, _ = self._surroundings
                self._quotas = ClientQuotas(QuotaWindows.of(config), clock)
            if self._metadata is not None:
                self._quotas.load(self._metadata)
            self._quotas.observe(self._tell_quotas)
        return self._quotas

    def observe_quotas(self, call: Callable[[ClientQuotas], None]) -> None:
        """Call after each change of a quota, and now if there are quotas."""
        self._quota_observers.append(call)
        if self._quotas is not None:
            call(self._quotas)

    def _quotas_changed(self, changed: Mapping[str, bytes | None]) -> None:
        _ = self.quotas  # which observe changes themselves from now on

    def _tell_quotas(self) -> None:
        quotas = self.quotas
        self.active_quotas = quotas if quotas.is_active else None
        for call in self._quota_observers:
            call(quotas)

    @property
    def scram(self) -> ScramUsers:
        """Users with passwords in the metadata store."""
        if self._scram is None:
            from kqueue.broker.access.scram_users import ScramUsers

            self._scram = ScramUsers()
            if self._metadata is not None:
                self._scram.load(self._metadata)
        return self._scram

    @property
    def tokens(self) -> DelegationTokens:
        """Tokens with which others act as a user."""
        if self._tokens is None:
            from kqueue.broker.access.delegation_tokens import DelegationTokens, TokenSurroundings

            around = None if self._surroundings is None else TokenSurroundings(*self._surroundings)
            self._tokens = DelegationTokens(around)
            if self._metadata is not None:
                self._tokens.load(self._metadata)
        return self._tokens

    def keys(self) -> list[str]:
        """Return the metadata keys of all that clients may change here."""
        if self._metadata is None:
            return []
        prefixes = (ACLS_PREFIX, QUOTAS_PREFIX, SCRAM_PREFIX, TOKENS_PREFIX)
        return [prefix + key for prefix in prefixes for key in self._metadata.with_prefix(prefix)]

    def find_scram_account(self, mechanism: str, name: str, is_token: bool) -> ScramAccount | None:
        """Return as whom SCRAM authenticates a user, or a token; see `FindScramAccount`."""
        from kqueue.security.scram_credentials import SCRAM_MECHANISMS, ScramAccount

        if is_token:
            return self.tokens.find_account(mechanism, name)
        credential = self.scram.of_user(name).get(SCRAM_MECHANISMS[mechanism])
        return None if credential is None else ScramAccount(credential, Principal(USER_TYPE, name))
