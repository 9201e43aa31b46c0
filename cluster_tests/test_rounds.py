"""The short rounds: each fault once, over SQLite, ZooKeeper or PostgreSQL, and with a tier; a kill
at the default settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from cluster_tests.cluster import FAST, new_ensemble
from cluster_tests.faults import FAULTS, POSTGRES_FAULTS, TIER_FAULTS, ZOOKEEPER_FAULTS
from cluster_tests.round import RoundResult, limit_s, play
from compat_tests.postgres import server as postgres_server
from compat_tests.zookeeper import server
from compat_tests.zookeeper.server import Ensemble

BUSY_S = 8.0
"""How much longer clients may wait after a kill than on a machine without other work, whose bound
`python -m benchmarks --only cluster` holds.
"""
BY_STORE = ["kill", "pause"]
"""What depends on the store, so is played over each."""
LONG_ONLY = {"blink", "part-one-way", "kill-again"}
"""In the long round."""


@pytest.fixture
def ensemble(tmp_path: Path) -> Ensemble:
    reason = server.missing()
    if reason:
        pytest.skip(f"skipped, because {reason}")
    return new_ensemble(tmp_path / "zookeeper")


@pytest.mark.timeout(400)
def test_brokers_of_one_machine_fail(tmp_path: Path) -> None:
    names = [name for name in FAULTS if name not in LONG_ONLY]
    result = play(tmp_path / "brokers", names, settings=FAST)
    check(result, FAST)


@pytest.mark.timeout(400)
def test_brokers_fail_and_zookeeper_fails(tmp_path: Path, ensemble: Ensemble) -> None:
    with ensemble:
        result = play(tmp_path / "brokers", [*BY_STORE, *ZOOKEEPER_FAULTS], ensemble=ensemble, settings=FAST)
    check(result, FAST)


@pytest.mark.timeout(400)
def test_brokers_with_a_tier_fail_and_lose_their_disks(tmp_path: Path) -> None:
    result = play(tmp_path / "brokers", [*BY_STORE, *TIER_FAULTS], settings=FAST, has_tier=True)
    check(result, FAST)
    assert result.counts["tier"]["segments"] > 8


@pytest.mark.thorough  # `tox -m postgres` kills server and brokers, more briefly
@pytest.mark.timeout(400)
def test_brokers_fail_and_postgres_fails(tmp_path: Path) -> None:
    reason = postgres_server.missing()
    if reason:
        pytest.skip(f"skipped, because {reason}")
    with postgres_server.Server({"fsync": "off"}) as postgres:  # no power is cut here
        result = play(tmp_path / "brokers", [*BY_STORE, *POSTGRES_FAULTS], postgres=postgres, settings=FAST)
    check(result, FAST)


def test_clients_wait_for_a_session_at_most_at_the_default_settings(tmp_path: Path, ensemble: Ensemble) -> None:
    with ensemble:
        result = play(tmp_path / "brokers", ["kill"], ensemble=ensemble, settings={})
    check(result, {})


def check(result: RoundResult, settings: Mapping[str, object]) -> None:
    print(result.counts, result.waits_s)
    assert result.violations == []
    assert result.logged == []
    assert result.counts["log"]["acknowledged"] > 0
    assert result.counts["log"]["commits"] > 0
    assert result.counts["bank"]["committed"] > 0
    assert result.counts["bank"]["aborted"] > 0
    assert result.counts["table"]["acknowledged"] > 0
    assert result.waits_s
    assert max(result.waits_s.values()) < limit_s(settings) + BUSY_S
