from __future__ import annotations

import logging
from pathlib import Path

import pytest
from kqueue_cleanup_archive import ARCHIVE, Archive, ArchivePolicy
from kqueue_cleanup_archive.policy import VARIABLE
from logs import fill, offsets, partition_of, simulation

from kqueue.base.config import Config, TopicConfig
from kqueue.base.errors import SettingError
from kqueue.base.settings import Catalog
from kqueue.log import config as log_config
from kqueue.log.policies import POLICIES, LogView, SegmentView
from kqueue.log.policies.delete import DeletePolicy
from kqueue.testing import check_cleanup_policy

NOW_MS = 1_700_000_000_000
OLD = SegmentView(0, 10, 500, NOW_MS - 10_000, False, NOW_MS - 10_000)
NEW = SegmentView(10, 12, 100, NOW_MS, True, NOW_MS)
LOG = LogView("orders", 0, (OLD, NEW), 0, 12, 12, 0)
ROUND = {"log_retention_check_interval_ms": 10_000}


def config(**values: str) -> TopicConfig:
    return Config(Catalog(log_config.SETTINGS)).for_topic(
        {name.replace("_", "."): value for name, value in values.items()}
    )


def test_archive_policy_keeps_the_contract() -> None:
    check_cleanup_policy(ArchivePolicy("archive"))


def test_archive_policy_is_found_by_name() -> None:
    assert POLICIES.get("archive") is ARCHIVE


@pytest.mark.parametrize(
    "values", [{"retention_ms": "5000"}, {"retention_ms": "-1", "retention_bytes": "100"}, {"retention_ms": "20000"}]
)
def test_archive_policy_drops_what_delete_drops(values: dict[str, str]) -> None:
    theirs = DeletePolicy().plan(LOG, _Nobody(), config(**values), NOW_MS)
    ours = ArchivePolicy("archive").plan(LOG, _Nobody(), config(**values), NOW_MS)
    if theirs is None:
        assert ours is None
    else:
        assert ours is not None
        assert (ours.before_offset, ours.roll_active) == (theirs.before_offset, theirs.roll_active)
        assert ours.why == f"{theirs.why}, archived"
        assert ours.before_delete == Archive("archive")


class _Nobody:
    def committed(self, group: str, topic: str, partition: int) -> int | None:
        return None


def test_the_variable_says_where_unless_somebody_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "s3://bucket/a")
    for policy, uri in ((ARCHIVE, "s3://bucket/a"), (ArchivePolicy(Path("b")), "b")):
        drop = policy.plan(LOG, _Nobody(), config(retention_ms="5000"), NOW_MS)
        assert drop is not None
        assert drop.before_delete == Archive(uri)


@pytest.mark.parametrize("value", [None, ""])
def test_without_a_place_nothing_goes_and_that_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, value: str | None
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(SettingError, match=VARIABLE):
        ARCHIVE.plan(LOG, _Nobody(), config(retention_ms="-1"), NOW_MS)
    sim = simulation(tmp_path / "data", **ROUND)
    partition = partition_of(sim, retention_ms="1000")
    fill(sim, partition, 20, [sim.clock.wall_ms()])
    with caplog.at_level(logging.ERROR):
        sim.advance(60_000)
    assert partition.log_start_offset == 0
    [told] = [record.getMessage() for record in caplog.records]
    assert VARIABLE in told
    assert "orders-0" in told
    monkeypatch.setenv(VARIABLE, str(tmp_path / "archive"))
    sim.advance(60_000)
    assert partition.log_start_offset == 20
    assert offsets(tmp_path / "archive") == list(range(20))


def test_retention_by_size_keeps_what_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "archive"))
    sim = simulation(tmp_path / "data", **ROUND)
    partition = partition_of(sim, retention_ms="-1", retention_bytes="2000")
    fill(sim, partition, 40)
    sim.advance(60_000)
    assert partition.log.segments.size >= 2000
    assert offsets(tmp_path / "archive") == list(range(partition.log_start_offset)) != []
