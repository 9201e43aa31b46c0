"""Makes a tier that of another cluster, whose brokers refuse it otherwise."""

from __future__ import annotations

from kqueue.tier.errors import ObjectNotFound, TierCorrupt
from kqueue.tier.formats.json_document import JSON_BYTES_MAX
from kqueue.tier.formats.keys import TIER_KEY
from kqueue.tier.formats.tier_record import TierRecord, decode_tier_record, encode_tier_record
from kqueue.tier.stores.contract import TierStore, Version


def take_over(store: TierStore, cluster_id: str, now_ms: int) -> None:
    """Write into `kqueue-tier.json` that the tier is that of this cluster, whatever is there.

    The former cluster must be gone: two clusters would delete each other's segments.
    Raises: ObjectChanged: somebody else writes it at the same time. TierError.
    """
    version: Version | None = None
    record = TierRecord(cluster_id, now_ms)
    try:
        found = store.get(TIER_KEY, max_bytes=JSON_BYTES_MAX)
        version = found.version
        former = decode_tier_record(found.body)
        record = TierRecord(cluster_id, former.created_ms, former.sequence + 1)
    except ObjectNotFound:
        pass
    except TierCorrupt:
        if version is None:  # too large to be read
            store.delete([TIER_KEY])
    store.put_if(TIER_KEY, encode_tier_record(record), version)
