from __future__ import annotations

import pytest

from kqueue.tier.errors import TierCorrupt
from kqueue.tier.formats.json_document import encode_document
from kqueue.tier.formats.tier_record import TierRecord, decode_tier_record, encode_tier_record


def test_record_is_read_back() -> None:
    record = TierRecord("MkU3OEVBNTcwNTJENDM2Qg", 1_000_000, 2)
    assert decode_tier_record(encode_tier_record(record)) == record


@pytest.mark.parametrize("cluster_id", ["", "x" * 256, "a\x1b[2J", 7, None])
def test_what_is_no_cluster_id_is_refused(cluster_id: object) -> None:
    with pytest.raises(TierCorrupt, match="cluster"):
        decode_tier_record(encode_document({"cluster_id": cluster_id, "created_ms": 0, "sequence": 0}))


def test_damaged_record_is_refused() -> None:
    with pytest.raises(TierCorrupt, match=r"kqueue-tier\.json: its checksum is wrong"):
        decode_tier_record(encode_tier_record(TierRecord("cluster")).replace(b'cluster"', b'clusters"', 1))
