"""The secret from which the salts of SCRAM users that do not exist are derived.

It is in the metadata store, so that these salts stay the same after a restart and on all brokers of
a cluster, as those of stored users do: else whoever asks twice could tell them apart.
"""

from __future__ import annotations

import logging
import secrets

from kqueue.base.errors import KqueueError
from kqueue.broker.metadata_cache import MetadataCache

KEY = "/sasl/salts"
SECRET_BYTES = 32
logger = logging.getLogger("kqueue.broker")


def salt_secret(metadata: MetadataCache) -> bytes:
    """Return the stored secret; a new one, which is then being stored, if there is none.

    Durability: if two brokers store the first one at once, or the disk is full, one uses its own
        until its next start.
    """
    stored = metadata.get(KEY)
    if stored is not None and len(stored) == SECRET_BYTES:
        return stored
    made = secrets.token_bytes(SECRET_BYTES)

    def done(error: KqueueError | None) -> None:
        if error is not None:
            logger.warning("salts of unknown SCRAM users will change with the next start: %s", error)

    metadata.commit("store the secret of salts", {KEY: made}, done)
    return made
