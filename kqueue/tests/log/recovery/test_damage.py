from __future__ import annotations

from kqueue.log.recovery.damage import Damage


def test_damage_is_one_sentence() -> None:
    found = Damage("t-0/00000000000000000000.log", 61, "checksum 0x1", "0x2")
    assert str(found) == "t-0/00000000000000000000.log at position 61: expected checksum 0x1, found 0x2"
    assert str(Damage("meta.properties", None, "a node id", "nothing")) == "meta.properties: expected a node id, found nothing"
