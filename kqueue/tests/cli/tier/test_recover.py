from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import kqueue
from kqueue.cli.app import kqueue as app
from kqueue.cli.log import progress_bar
from kqueue.cli.offline_store import offline_store
from kqueue.client import Client
from kqueue.metadata.sqlite import SqliteStore
from kqueue.tests.cli.tier.conftest import Run
from kqueue.tests.replication.support import broker
from kqueue.tests.tier.tiered_logs import ORDERS
from kqueue.tests.tier.tiers import CLUSTER, put
from kqueue.tests.waits import eventually
from kqueue.tier.catalog import read_tier_record
from kqueue.tier.formats.keys import TIER_KEY
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.contract import TierStore


def topic_id(broker: kqueue.Broker) -> bytes:
    with Client(broker.bootstrap) as client:
        client.metadata(["orders"])
        return client.topic_id("orders")


def offsets_at(broker: kqueue.Broker) -> list[int]:
    """Return the offsets of all records of the topic, as a consumer gets them."""
    arguments = ["consume", "orders", "-b", broker.bootstrap, "--from-beginning", "--exit-eof", "--format", "json"]
    return [json.loads(line)["offset"] for line in CliRunner().invoke(app, arguments).stdout.splitlines()]


def test_dry_run_reports_and_changes_nothing(run: Run, store: TierStore) -> None:
    put(store, ORDERS.manifest_key, b"x")
    result = run("recover", store.location, "--dry-run")
    assert result.exit_code == 1
    assert "Missing: orders-0: the manifest of orders-0" in result.stdout
    assert "1 topic would be recovered. Nothing was changed." in result.stdout
    assert store.get(ORDERS.manifest_key, max_bytes=10).body == b"x"


def test_progress_is_shown_while_the_tier_is_read(
    run: Run, store: TierStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[str, int, int]] = []

    @contextlib.contextmanager
    def bar(title: str) -> Iterator[Callable[[int, int], None]]:
        yield lambda done, total: shown.append((title, done, total))

    monkeypatch.setattr(progress_bar, "count_bar", bar)
    assert run("recover", store.location, "--folder", tmp_path / "data").exit_code == 0
    assert shown == [("Reading partitions", 1, 1), ("Reading producers", 1, 1)]


def test_topics_are_made_again_in_a_new_data_folder(run: Run, store: TierStore, tmp_path: Path) -> None:
    end = Manifest.open(store, ORDERS).end_offset
    folder = tmp_path / "data"
    result = run("recover", store.location, "--folder", folder)
    assert result.exit_code == 0, result.output
    assert "Recovered 1 topic: orders." in result.stdout
    assert str(end) in result.stdout
    assert f"cluster.id={CLUSTER}" in (folder / "meta.properties").read_text()
    again = run("recover", store.location, "--folder", folder)
    assert (again.exit_code, "Recovered 0 topics." in again.stdout) == (0, True), again.output
    settings = {"remote.log.storage.system.enable": True, "kqueue.tier.url": store.location}
    with kqueue.Broker(folder, settings=settings) as started:
        assert topic_id(started) == ORDERS.topic_id
        busy = run("recover", store.location, "--folder", folder)
        assert (busy.exit_code, "stop it" in busy.stderr) == (1, True), busy.output


@pytest.mark.long
def test_recovered_broker_serves_the_records_of_the_tier(run: Run, store: TierStore, tmp_path: Path) -> None:
    expected = [record.offset for record in kqueue.open_log(f"{store.location}/orders-0")]
    assert run("recover", store.location, "--folder", tmp_path / "data").exit_code == 0
    settings = {"remote.log.storage.system.enable": True, "kqueue.tier.url": store.location}
    with kqueue.Broker(tmp_path / "data", settings=settings) as started:
        assert offsets_at(started) == expected


@pytest.mark.long
def test_running_cluster_serves_the_records_of_the_tier(run: Run, store: TierStore, tmp_path: Path) -> None:
    expected = [record.offset for record in kqueue.open_log(f"{store.location}/orders-0")]
    metadata = f"sqlite:{tmp_path / 'cluster.db'}"
    assert run("recover", store.location, "--store", metadata).exit_code == 1
    settings = {
        "remote.log.storage.system.enable": True,
        "kqueue.tier.url": store.location,
        "kqueue.cluster.store": metadata,
    }
    with kqueue.Broker(tmp_path / "data", settings=settings) as started:
        recovered = run("recover", store.location, "--store", metadata)
        assert recovered.exit_code == 0, recovered.output
        eventually(lambda: offsets_at(started) == expected, "the records of the tier")


def test_topic_of_the_name_that_is_another_one_is_refused(run: Run, store: TierStore, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    assert run("recover", store.location, "--folder", folder).exit_code == 0
    with offline_store(folder) as metadata:
        record = json.loads(metadata.read("/topics/")["/topics/orders"].value)
        metadata.commit({}, {"/topics/orders": json.dumps(record | {"id": "A" * 22}).encode()}, ())
    result = run("recover", store.location, "--folder", folder)
    assert (result.exit_code, "delete the new one first" in result.stderr) == (1, True), result.output


def test_new_store_of_a_cluster_becomes_that_of_the_tier_and_then_gets_the_topics(
    run: Run, store: TierStore, tmp_path: Path
) -> None:
    url = f"sqlite:{tmp_path / 'cluster.db'}"
    first = run("recover", store.location, "--store", url)
    assert (first.exit_code, f"is that of cluster {CLUSTER} now" in first.stderr) == (1, True), first.output
    early = run("recover", store.location, "--store", url)
    assert (early.exit_code, "no broker of the cluster runs" in early.stderr) == (1, True), early.output
    metadata = SqliteStore(tmp_path / "cluster.db")
    metadata.commit({}, {"/brokers/5": broker(5).to_bytes()}, ())
    second = run("recover", store.location, "--store", url, "--json")
    assert (second.exit_code, json.loads(second.stdout)["recovered"]) == (0, ["orders"]), second.output
    ((_, entry),) = metadata.read("/topics/").items()
    assert json.loads(entry.value)["partitions"] == [[[5], [5], 5, 1, 1]]
    metadata.close()


def test_tier_of_another_cluster_is_taken_over_on_request_only(run: Run, store: TierStore, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "meta.properties").write_text("version=1\ncluster.id=another\n")
    refused = run("recover", store.location, "--folder", folder)
    assert (refused.exit_code, "add --take-over" in refused.stderr) == (1, True), refused.output
    taken = run("recover", store.location, "--folder", folder, "--take-over")
    assert taken.exit_code == 0, taken.output
    record = read_tier_record(store)
    assert record is not None
    assert record.cluster_id == "another"


def test_tier_whose_record_is_lost_or_damaged(run: Run, store: TierStore, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    store.delete([TIER_KEY])
    lost = run("recover", store.location, "--folder", folder)
    assert (lost.exit_code, "does not say whose it is" in lost.stderr) == (1, True), lost.output
    (folder / "meta.properties").write_text("version=1\ncluster.id=another\n")
    put(store, TIER_KEY, b"x")
    damaged = run("recover", store.location, "--folder", folder)
    assert (damaged.exit_code, "kqueue-tier.json" in damaged.stderr) == (1, True), damaged.output
    assert run("recover", store.location, "--folder", folder, "--take-over").exit_code == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], "name where to"),
        (["--folder", "x", "--store", "sqlite:y"], "not both"),
        (["--store", "memory"], "names no kqueue.cluster.store"),
        (["--store", "nonsense"], "kqueue.cluster.store"),
    ],
)
def test_wrong_options_are_refused(run: Run, store: TierStore, options: list[str], expected: str) -> None:
    result = run("recover", store.location, *options)
    assert (result.exit_code > 0, expected in result.stderr) == (True, True), result.output
