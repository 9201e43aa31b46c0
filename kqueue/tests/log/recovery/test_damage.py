from __future__ import annotations

import pytest

from kqueue.log.recovery.damage import KEPT_MAX, LOGGED_MAX, Damage, report_damage


def test_damage_is_one_sentence() -> None:
    damage = Damage("t-0/00000000000000000000.log", 61, "checksum 0x1", "0x2")
    assert str(damage) == "t-0/00000000000000000000.log at position 61: expected checksum 0x1, found 0x2"
    assert (
        str(Damage("meta.properties", None, "a node id", "nothing"))
        == "meta.properties: expected a node id, found nothing"
    )


def test_first_damages_are_logged_and_the_rest_counted(caplog: pytest.LogCaptureFixture) -> None:
    kept: list[Damage | str] = ["the last stop left this"]
    damages = [Damage("t-0/1.log", position, "right", "wrong") for position in range(2 * KEPT_MAX)]
    report_damage(damages, kept, "data", "t-0")
    assert len(caplog.messages) == LOGGED_MAX + 1
    assert caplog.messages[0].startswith("data: t-0/1.log at position 0: expected right, found wrong;")
    assert caplog.messages[-1] == f"data: t-0 is damaged at {2 * KEPT_MAX - LOGGED_MAX} more positions"
    assert len(kept) == KEPT_MAX
    assert kept[:2] == ["the last stop left this", damages[0]]
