from __future__ import annotations

import pytest

from kqueue.tests.tier.tiered_logs import ORDERS
from kqueue.tier.formats.keys import TieredPartition, is_object_id
from kqueue.tier.stores.contract import is_key

ID = "0123456789abcdef" * 2


def test_keys_of_a_partition_sort_by_offset_and_can_be_keys_of_any_store() -> None:
    assert ORDERS.manifest_key == "topics/orders/AAECAwQFBgcICQoLDA0ODw/0/manifest"
    assert ORDERS.segment_key(10, ID) == f"topics/orders/AAECAwQFBgcICQoLDA0ODw/0/segments/00000000000000000010-{ID}"
    assert ORDERS.segment_key(9, ID) < ORDERS.segment_key(10, ID)
    longest = TieredPartition("a" * 249, b"\xff" * 16, 2**31 - 1)
    assert is_key(longest.page_key(2**63 - 1, ID))
    assert is_key(longest.segment_key(2**63 - 1, ID))


def test_partition_has_its_segments_and_pages_and_nothing_else() -> None:
    assert ORDERS.has_object(ORDERS.segment_key(5, ID))
    assert ORDERS.has_object(ORDERS.page_key(5, ID))
    other = ORDERS._replace(partition=1)
    for key in [
        ORDERS.manifest_key,
        other.segment_key(5, ID),
        ORDERS._replace(topic_id=bytes(16)).segment_key(5, ID),
        f"{ORDERS.prefix}/segments/../../1/manifest",
        f"{ORDERS.prefix}/segments/5-{ID}",
        f"{ORDERS.segment_key(5, ID)}\n",
        f"{ORDERS.segment_key(5, ID)}/x",
        f"{ORDERS.prefix}/segments/{'٣' * 20}-{ID}",
        "",
        None,
        5,
        b"x",
    ]:
        assert not ORDERS.has_object(key), key


@pytest.mark.parametrize("text", ["", ID[1:], ID + "0", ID.upper(), ID[:-1] + "g", ID[:-1] + "\n", None, 5])
def test_ids_are_32_hexadecimal_digits(text: object) -> None:
    assert is_object_id(ID)
    assert not is_object_id(text)
