"""Readers of any kind see only whole batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from kqueue.spark.batches import Batches, whole_files
from kqueue.spark.errors import PipelineFailed
from kqueue.spark.stores.local import LocalStore
from kqueue.tests.spark.batches.cut_stores import CutStore


def test_files_of_whole_batches_are_listed_oldest_first(tmp_path: Path) -> None:
    store = CutStore(LocalStore(tmp_path))
    for table, home in (("records", ""), ("silver", "checkpoints/silver")):
        batches = Batches(store, table, home, folder_each=table == "silver")
        for number in (2, 10):
            batches.commit(batches.stage({"part-1.parquet": [number]}, number, []), {})
        batches.stage({"part-1.parquet": [11]}, 11, [])
    assert whole_files(str(tmp_path)) == [store.of("records", f"{number:08d}-1.parquet") for number in (2, 10)]
    silver = [store.of("silver", f"batch={number}/part-1.parquet") for number in (2, 10)]
    assert whole_files(str(tmp_path), "silver") == silver
    with pytest.raises(PipelineFailed, match="gold has no whole batch"):
        whole_files(str(tmp_path), "gold")
