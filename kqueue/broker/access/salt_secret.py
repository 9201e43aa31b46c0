"""The secret from which the salts of SCRAM users that do not exist are derived.

It is in the metadata store, so that these salts stay the same after a restart and on all brokers of
a cluster, as those of stored users do: else whoever asks twice could tell them apart.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping

from kqueue.base import events
from kqueue.base.errors import Conflict, KqueueError
from kqueue.broker.metadata.cache import MetadataCache

KEY = "/sasl/salts"
SECRET_BYTES = 32
logger = logging.getLogger("kqueue.broker")


class SaltSecret:
    """The secret: the stored one, or a new one, which is then being stored.

    Of brokers that store the first one at once all but one are refused, and take that of the other
    with their next refresh.

    Durability: if it can't be stored, it lasts until the next start.
    """

    def __init__(self, metadata: MetadataCache) -> None:
        self._value = secrets.token_bytes(SECRET_BYTES)
        metadata.observe(KEY, self._apply)
        stored = metadata.get(KEY)
        self._apply({"": stored})
        if self._value != stored:
            metadata.commit("store the secret of salts", {KEY: self._value}, self._stored)

    def __call__(self) -> bytes:
        """Return its bytes."""
        return self._value

    def __repr__(self) -> str:
        return "<SaltSecret>"

    def _apply(self, changed: Mapping[str, bytes | None]) -> None:
        stored = changed.get("")
        if stored is not None and len(stored) == SECRET_BYTES:
            self._value = stored

    def _stored(self, error: KqueueError | None) -> None:
        if error is not None and not isinstance(error, Conflict):
            events.SCRAM_SALTS_NOT_KEPT.log(
                logger, "salts of unknown SCRAM users will change with the next start: %s", error=error
            )
