"""Each location opens the store of its kind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kqueue.spark.errors import OptionError
from kqueue.spark.stores import Location, check_url, location_of, needs_spark, open_store
from kqueue.spark.stores.local import LocalStore
from kqueue.tests.tables import for_each


def test_folder_is_opened_without_spark(tmp_path: Path) -> None:
    store = open_store(location_of(str(tmp_path)), None)
    assert isinstance(store, LocalStore)
    assert store.of("a", "b") == str(tmp_path / "a" / "b")


def test_url_of_hadoop_needs_a_running_spark() -> None:
    with pytest.raises(OptionError, match="'hdfs://here/kept' needs a running Spark"):
        open_store(Location("hdfs://here/kept"), None)


@for_each(
    "url, written",
    [
        ("s3:/lake/orders", "write s3://lake/orders"),
        ("s3:lake", "write s3://lake"),
        ("S3://lake", "write s3://lake"),
        ("s3a://lake/x", "write s3://lake/x"),
        ("s3:", "write s3://BUCKET/PREFIX"),
        ("hdfs:/here", "write hdfs://here"),
        ("file:/here", "write /here"),
    ],
)
def test_a_url_that_is_almost_right_is_refused_with_the_right_spelling(url: str, written: str) -> None:
    with pytest.raises(OptionError, match=rf"{re.escape(written)}$"):
        open_store(Location(url), None)


@for_each("url", ["s3://lake/x", "hdfs://here/x", "/data/s3:/x", "./s3:/x", "kept", "a:b", "file:///x"])
def test_urls_and_folders_are_accepted_unchanged(url: str) -> None:
    check_url(url)
    assert needs_spark(Location(url)) == url.startswith(("hdfs:", "file:"))
