from __future__ import annotations

from kqueue.base.settings import Catalog
from kqueue.broker.config import SETTINGS


def test_the_rows_of_this_floor_and_below_fit_together() -> None:
    catalog = Catalog(SETTINGS)
    for name in (
        "node.id",
        "log.dirs",
        "kqueue.flush",
        "group.initial.rebalance.delay.ms",
        "log.segment.bytes",
        "message.max.bytes",
    ):
        assert name in catalog.broker
    assert "segment.bytes" in catalog.topic


def test_every_default_satisfies_its_own_rule_and_every_row_says_what_it_does() -> None:
    for row in SETTINGS:
        assert row.doc.endswith((".", ")")), row.name
        if row.default is not None:
            assert row.valid.accepts(row.default), row.name
