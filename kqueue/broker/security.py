"""What decides who may do what on one broker."""

from __future__ import annotations

from dataclasses import dataclass, field

from kqueue.broker.acls import Acls
from kqueue.broker.metadata_cache import MetadataCache
from kqueue.security.authorizer import Authorizer


@dataclass(slots=True)
class BrokerSecurity:
    """Access control of one broker.

    `authorizer`: set before the broker starts; None: every client may do everything. `acls`: those
    of the metadata store, by which the standard authorizer decides.
    """

    authorizer: Authorizer | None = None
    acls: Acls = field(default_factory=Acls)

    def load(self, metadata: MetadataCache) -> None:
        """Read what the metadata store has, before the broker serves. Raises: StorageFailed."""
        self.acls.load(metadata)
