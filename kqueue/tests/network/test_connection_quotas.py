from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.network.connection_quotas import ConnectionQuotas, connections_max_within


@pytest.mark.parametrize(
    ("limit", "files", "allowed"),
    [(10_000, None, 10_000), (10_000, 1024, 768), (100, 1024, 100), (10_000, 128, 64), (10, 20, 1)],
)
def test_connection_limit_reserves_descriptors_for_logs(limit: int, files: int | None, allowed: int) -> None:
    assert connections_max_within(limit, files) == allowed


def test_connections_are_limited_in_total_and_by_address() -> None:
    quotas = ConnectionQuotas(4, 2, {"10.0.0.9": 3})
    assert quotas.admit("10.0.0.1") is None
    assert quotas.admit("10.0.0.1") is None
    assert "2 connections from its address" in (quotas.admit("10.0.0.1") or "")
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
