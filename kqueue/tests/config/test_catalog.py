from __future__ import annotations

import pytest

from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.base.settings import Scope
from kqueue.config.catalog import CATALOG, OWN_SETTINGS
from kqueue.tests.tables import for_each


def test_every_default_of_the_server_is_valid_and_explained() -> None:
    for row in OWN_SETTINGS:
        assert row.scope is Scope.BROKER
        assert row.default is None or row.parse(row.default) == row.default
        assert row.doc.endswith("."), row.name


def test_the_catalog_holds_the_rows_of_every_floor() -> None:
    assert {"listeners", "log.dirs", "num.partitions", "group.initial.rebalance.delay.ms", "log.segment.bytes"} <= set(
        CATALOG.broker
    )
    assert "segment.bytes" in CATALOG.topic


def test_every_limit_on_clients_is_finite_by_default() -> None:
    config = Config(CATALOG)
    for name in (
        "socket.request.max.bytes",
        "max.connections",
        "queued.max.request.bytes",
        "queued.max.requests",
        "connections.max.idle.ms",
    ):
        assert 0 < config[name] < 2**31 - 1, name
    for name in ("kqueue.slow.reader.timeout.ms", "kqueue.slow.sender.timeout.ms", "kqueue.queued.max.response.bytes"):
        assert 0 < config[name] < 2**31 - 1, name


def test_the_default_listener_is_reached_from_this_machine_only() -> None:
    assert Config(CATALOG)["listeners"] == ["PLAINTEXT://localhost:9092"]


@for_each(
    "name, value",
    [
        ("socket.send.buffer.bytes", 100),
        ("connections.max.idle.ms", 0),
        ("queued.max.request.bytes", 0),
        ("max.connection.creation.rate", 0),
        ("listeners", ""),
        ("socket.request.max.bytes", "many"),
    ],
)
def test_values_out_of_range_are_refused_with_the_range(name: str, value: object) -> None:
    with pytest.raises(SettingError, match=f"Invalid value .* for configuration {name}: .*expected"):
        Config(CATALOG, {name: value})
