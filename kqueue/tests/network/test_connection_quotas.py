from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.config import Config, ConfigSource
from kqueue.base.errors import SettingError
from kqueue.config.catalog import CATALOG
from kqueue.network.connection_quotas import ConnectionQuotas, connections_max_within
from kqueue.tests.tables import for_each


@for_each(
    "limit, files, allowed",
    [(10_000, None, 10_000), (10_000, 1024, 768), (100, 1024, 100), (10_000, 128, 64), (10, 20, 1)],
)
def test_connection_limit_reserves_descriptors_for_logs(limit: int, files: int | None, allowed: int) -> None:
    assert connections_max_within(limit, files) == allowed


def test_connections_are_limited_in_total_and_by_address() -> None:
    quotas = ConnectionQuotas(4, 2, {"10.0.0.9": 3})
    assert quotas.admit("10.0.0.1") is None
    assert quotas.admit("10.0.0.1") is None
    assert "its address has 2 connections" in (quotas.admit("10.0.0.1") or "")
    assert quotas.admit("10.0.0.9") is None
    assert quotas.admit("10.0.0.9") is None
    assert "4 connections already" in (quotas.admit("10.0.0.9") or "")
    quotas.release("10.0.0.1")
    assert quotas.admit("10.0.0.9") is None
    assert quotas.total == 4


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=60), st.integers(0, 5), st.integers(0, 3))
def test_connection_counts_match_a_simple_model(steps: list[tuple[str, bool]], total_max: int, each_max: int) -> None:
    quotas = ConnectionQuotas(total_max, each_max, {})
    there: list[str] = []
    for address, comes in steps:
        if comes:
            fits = len(there) < total_max and there.count(address) < each_max
            assert (quotas.admit(address) is None) == fits
            if fits:
                there.append(address)
        elif address in there:
            there.remove(address)
            quotas.release(address)
    assert quotas.total == len(there)


def test_quotas_follow_the_settings() -> None:
    config = Config(CATALOG, {"max.connections": 3, "max.connections.per.ip.overrides": "localhost:1"})
    quotas = ConnectionQuotas.of(config)
    assert quotas.admit("127.0.0.1") is None
    assert "max.connections.per.ip" in (quotas.admit("127.0.0.1") or "")
    set_dynamic(config, {"max.connections.per.ip.overrides": ["127.0.0.1:2"], "max.connections": 2})
    assert quotas.admit("127.0.0.1") is None
    assert "max.connections)" in (quotas.admit("127.0.0.2") or "")
    set_dynamic(config, {"max.connections.per.ip": 1})
    assert quotas.admit("127.0.0.2") is None
    quotas.release("127.0.0.1")
    assert "max.connections.per.ip" in (quotas.admit("127.0.0.1") or "")  # the override of the start counts again
    set_dynamic(config, {})
    assert quotas.admit("127.0.0.2") is None
    assert "max.connections)" in (quotas.admit("127.0.0.3") or "")


@for_each(
    "values, words",
    [
        ({"max.connections": 0}, "no client could connect to raise it"),
        ({"max.connections.per.ip": 0}, "which names none"),
        ({"max.connections.per.ip.overrides": ["localhost:5"]}, "expected address:number, found 'localhost:5'"),
        ({"max.connections.per.ip.overrides": ["127.0.0.1"]}, "expected address:number"),
    ],
)
def test_values_that_lock_everybody_out_are_refused_at_run_time(values: dict[str, object], words: str) -> None:
    config = Config(CATALOG)
    ConnectionQuotas.of(config)
    with pytest.raises(SettingError, match=words):
        config.check_dynamic(ConfigSource.DYNAMIC_BROKER, values)


def set_dynamic(config: Config, values: dict[str, object]) -> None:
    config.check_dynamic(ConfigSource.DYNAMIC_BROKER, values)
    config.set_dynamic(ConfigSource.DYNAMIC_BROKER, values)
