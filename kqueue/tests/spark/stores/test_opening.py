"""Which store a location has."""

from __future__ import annotations

from pathlib import Path

import pytest

from kqueue.spark.errors import OptionError
from kqueue.spark.stores import Location, location_of, open_store
from kqueue.spark.stores.local import LocalStore


def test_a_folder_needs_no_spark(tmp_path: Path) -> None:
    store = open_store(location_of(str(tmp_path)), None)
    assert isinstance(store, LocalStore)
    assert store.of("a", "b") == str(tmp_path / "a" / "b")


def test_other_urls_are_spark_s() -> None:
    with pytest.raises(OptionError, match="'hdfs://here/kept' needs a running Spark"):
        open_store(Location("hdfs://here/kept"), None)
