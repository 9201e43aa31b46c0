"""The record of a tier, `kqueue-tier.json`: which cluster writes below the URL.

The first broker writes it, on the condition that there is none. A broker of another cluster refuses
to start: two clusters with one tier would delete each other's objects.
"""

from __future__ import annotations

from dataclasses import dataclass

from kqueue.tier.errors import TierCorrupt
from kqueue.tier.formats.json_document import decode_document, encode_document
from kqueue.tier.formats.keys import TIER_KEY

CLUSTER_ID_LENGTH_MAX = 255


@dataclass(frozen=True, slots=True)
class TierRecord:
    """A tier.

    Attributes:
        cluster_id: of the cluster whose brokers write.
        created_ms: wall clock in ms since 1970.
        sequence: counts the changes, so that no two versions of the object are equal.
    """

    cluster_id: str
    created_ms: int = 0
    sequence: int = 0


def encode_tier_record(record: TierRecord) -> bytes:
    """Return the bytes of `kqueue-tier.json`."""
    return encode_document(
        {"cluster_id": record.cluster_id, "created_ms": record.created_ms, "sequence": record.sequence}
    )


def decode_tier_record(data: bytes) -> TierRecord:
    """Return the record in the object. Raises: TierCorrupt: it is damaged, or something else."""
    fields = decode_document(data, TIER_KEY)
    cluster_id = fields.text("cluster_id")
    if not 0 < len(cluster_id) <= CLUSTER_ID_LENGTH_MAX or not cluster_id.isprintable():
        raise TierCorrupt(f"{TIER_KEY}: expected the id of a cluster, found {cluster_id[:60]!r}")
    return TierRecord(cluster_id, fields.number("created_ms"), fields.number("sequence"))
