"""What decides who may do what on one broker."""

from __future__ import annotations

from dataclasses import dataclass, field

from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.base.jobs import Jobs
from kqueue.base.timers import Timers
from kqueue.broker.acls import Acls
from kqueue.broker.client_quotas import ClientQuotas, QuotaWindows
from kqueue.broker.delegation_tokens import DelegationTokens, TokenSurroundings
from kqueue.broker.metadata_cache import MetadataCache
from kqueue.broker.scram_users import ScramUsers
from kqueue.security.audit import AuditLog
from kqueue.security.authorizer import Authorizer
from kqueue.security.principals import USER_TYPE, Principal
from kqueue.security.scram_credentials import SCRAM_MECHANISMS, ScramAccount


@dataclass(slots=True)
class BrokerSecurity:
    """Access control of one broker.

    `authorizer`: set before the broker starts; None: every client may do everything. `acls`: those
    of the metadata store, by which the standard authorizer decides. `scram`: users with passwords
    in the metadata store. `quotas`: bounds on clients. `tokens`: with which others act as a user.
    `audit`: where decisions are written; None: nowhere.
    """

    authorizer: Authorizer | None = None
    audit: AuditLog | None = None
    acls: Acls = field(default_factory=Acls)
    scram: ScramUsers = field(default_factory=ScramUsers)
    quotas: ClientQuotas = field(default_factory=ClientQuotas)
    tokens: DelegationTokens = field(default_factory=DelegationTokens)

    @classmethod
    def of(cls, config: Config, clock: Clock, jobs: Jobs, timers: Timers) -> BrokerSecurity:
        """Return it for a broker with these settings, without an authorizer."""
        tokens = DelegationTokens(TokenSurroundings(config, clock, jobs, timers))
        return cls(quotas=ClientQuotas(QuotaWindows.of(config), clock), tokens=tokens)

    def load(self, metadata: MetadataCache) -> None:
        """Read what the metadata store has, before the broker serves. Raises: StorageFailed."""
        self.acls.load(metadata)
        self.scram.load(metadata)
        self.quotas.load(metadata)
        self.tokens.load(metadata)

    def keys(self) -> list[str]:
        """Return the metadata keys of all that clients may change here."""
        return [*self.acls.keys(), *self.scram.keys(), *self.tokens.keys()]

    def find_scram_account(self, mechanism: str, name: str, is_token: bool) -> ScramAccount | None:
        """Return as whom SCRAM authenticates a user, or a token; see `FindScramAccount`."""
        if is_token:
            return self.tokens.find_account(mechanism, name)
        credential = self.scram.of_user(name).get(SCRAM_MECHANISMS[mechanism])
        return None if credential is None else ScramAccount(credential, Principal(USER_TYPE, name))
