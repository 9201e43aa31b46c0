from __future__ import annotations

from pathlib import Path

import pytest

from kqueue.base.config import ConfigSource
from kqueue.broker.tier.tier_host import AHEAD_QUEUED_MAX, LOGGED_BURST
from kqueue.tests.broker.tier.test_tier_reads import tiered
from kqueue.tests.broker.tier.tiered_brokers import TieredClient
from kqueue.tier.errors import TierUnavailable


def test_kinds_of_jobs_have_threads_of_their_own_beside_those_of_disks() -> None:
    client = tiered(6)
    client.sim.jobs.held = "tier reads"
    client.read(0)
    client.fill(6, start=6)
    client.tick()
    assert client.sim.broker.topics.get("t").partition(0).log.tiered_end == 10, "copies go on while reads hang"
    client.sim.jobs.release()
    client.sim.jobs.held = "tier copies"
    client.fill(6, start=12)
    client.tick()
    assert client.read_all() == [b"v%d" % number for number in range(18)], "reads go on while copies hang"


def test_object_ids_are_random_and_of_one_width() -> None:
    host = TieredClient().tier.host
    ids = {host.object_id() for _ in range(100)}
    assert len(ids) == 100
    assert {len(each) for each in ids} == {32}


def test_what_is_read_ahead_is_bounded() -> None:
    client, ran = TieredClient(), []
    host = client.tier.host
    client.sim.jobs.held = "tier ahead"
    for number in range(100):
        host._read_ahead(lambda number=number: ran.append(number))  # type: ignore[misc]
    client.sim.settle()
    client.sim.jobs.release()
    client.sim.settle()
    assert AHEAD_QUEUED_MAX <= len(ran) <= AHEAD_QUEUED_MAX + 2


def test_cache_in_a_folder_is_emptied_at_the_start_and_used(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / "old-0.chunk").write_bytes(b"x")
    client = TieredClient(**{"kqueue.tier.cache.dir": str(folder)})
    assert not list(folder.iterdir())
    client.topic()
    client.fill(6)
    client.tick()
    client.read(0)
    assert list(folder.iterdir())


def test_cache_folder_that_can_not_be_used_leaves_the_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_bytes(b"")
    client = TieredClient(**{"kqueue.tier.cache.dir": str(tmp_path / "file")})
    assert "chunks of the tier are not kept on disk" in caplog.text
    client.topic()
    client.fill(6)
    client.tick()
    assert client.read_all() == [b"v%d" % number for number in range(6)]


def test_memory_of_indexes_is_changed_at_run_time() -> None:
    client = TieredClient()
    name = "remote.log.index.file.cache.total.size.bytes"
    client.sim.broker.config.set_dynamic(ConfigSource.DYNAMIC_DEFAULT_BROKER, {name: 4096})
    assert client.tier.host.reader.index_bytes_max == 4096


def test_store_that_is_away_is_said_in_some_lines_and_again_later(caplog: pytest.LogCaptureFixture) -> None:
    client = TieredClient()
    host, topic = client.tier.host, client.topic(partitions=40)

    def lines() -> int:
        found = len([line for line in caplog.messages if "no route" in line])
        caplog.clear()
        return found

    for partition in topic.partitions:
        host.failed(host.state_of(partition), TierUnavailable(f"no route to {partition.index}"))
    assert lines() == LOGGED_BURST
    client.sim.clock.advance(60_000)
    state = host.state_of(topic.partition(0))
    host.failed(state, TierUnavailable("no route"))
    host.failed(state, TierUnavailable("no route"))
    assert lines() == 1
    host.stop()
    host.failed(state, TierUnavailable("no route at all"))
    assert lines() == 0
