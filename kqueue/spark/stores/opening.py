"""Chooses the store of a location."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kqueue.spark.errors import OptionError
from kqueue.spark.stores.hadoop import HadoopStore
from kqueue.spark.stores.local import LocalStore
from kqueue.spark.stores.s3 import SCHEME, S3Store
from kqueue.spark.stores.store import Location, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_store(place: Location, spark: SparkSession | None) -> Store:
    """Return the store of a location, without touching it.

    Args: spark: for URLs that Hadoop knows.
    """
    if "://" not in place.url:
        return LocalStore(place.url)
    if place.url.startswith(SCHEME):
        return S3Store(place)
    if spark is None:
        raise OptionError(f"{place.url!r} needs a running Spark")
    return HadoopStore(spark, place.url)
