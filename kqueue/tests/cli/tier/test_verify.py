from __future__ import annotations

import json
import os
from pathlib import Path

from kqueue.tests.cli.tier.conftest import Run
from kqueue.tests.log_tools.tier.test_comparison import write_folder
from kqueue.tests.tier.tiered_logs import ORDERS
from kqueue.tests.tier.tiers import copied_log, put
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.contract import TierStore


def test_sound_tier(run: Run, store: TierStore) -> None:
    result = run("verify", store.location)
    assert (result.exit_code, result.stdout) == (
        0,
        f"Checked 1 partition and 2 segments in {store.location}.\nAll is sound.\n",
    )
    result = run("verify", store.location, "--checksums", "--topic", "orders")
    assert (result.exit_code, ", read " in result.stdout) == (0, True), result.output


def test_missing_segment_fails_and_is_named(run: Run, store: TierStore) -> None:
    key = Manifest.open(store, ORDERS).root.segments[0].key(ORDERS)
    store.delete([key])
    result = run("verify", store.location, "-q")
    assert (result.exit_code, result.stdout) == (1, f"error: {key}: expected an object, found none\n")
    report = json.loads(run("verify", store.location, "--json").stdout)
    assert (report["sound"], len(report["findings"])) == (False, 1)


def test_orphans_are_deleted_on_request_when_they_are_old(run: Run, store: TierStore, tmp_path: Path) -> None:
    key = ORDERS.segment_key(5, "a" * 32)
    put(store, key, b"left over")
    assert "Kept 1 orphan" in run("verify", store.location, "--delete-orphans").stdout
    os.utime(tmp_path / "tier" / key, (0, 0))
    assert "Kept 1 orphan" in run("verify", store.location).stdout
    result = run("verify", store.location, "--delete-orphans")
    assert (result.exit_code, "Deleted 1 orphan (9 B)." in result.stdout) == (0, True), result.output
    assert "Kept" not in run("verify", store.location).stdout


def test_comparison_with_a_data_folder(run: Run, store: TierStore, tmp_path: Path) -> None:
    target = write_folder(copied_log(store, 20), tmp_path / "data")
    end = Manifest.open(store, ORDERS).end_offset
    result = run("verify", store.location, "--against", tmp_path / "data")
    assert f"orders-0: offsets 0 to {end - 1} are equal in both." in result.stdout, result.output
    first = min(target.glob("*.log"))
    data = bytearray(first.read_bytes())
    data[70] ^= 1
    first.write_bytes(data)
    result = run("verify", store.location, "--against", tmp_path / "data", "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["compared"][0]["end_offset"]) == (1, end)
    assert "as in the local log" in report["findings"][0]["expected"]


def test_folder_without_common_offsets(run: Run, store: TierStore, tmp_path: Path) -> None:
    write_folder(copied_log(store, 20), tmp_path / "data")
    store.delete([ORDERS.manifest_key])
    Manifest.open(store, ORDERS).rebuild([], 0)
    (tmp_path / "empty").mkdir()
    result = run("verify", store.location, "--against", tmp_path / "empty")
    assert (result.exit_code, "holds no logs" in result.stderr) == (2, True), result.output
