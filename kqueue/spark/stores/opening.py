"""Chooses the store of a location."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kqueue.spark.errors import OptionError
from kqueue.spark.stores.hadoop import HadoopStore
from kqueue.spark.stores.local import LocalStore
from kqueue.spark.stores.s3 import SCHEME, S3Store
from kqueue.spark.stores.store import Location, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):(/*)(.*)", re.DOTALL)
_OF_S3 = ("s3", "s3a", "s3n")


def check_url(url: str) -> None:
    """Raise OptionError, with the right spelling, for what looks like a URL and is not one that is
    known: ``s3:/lake`` would be a folder ``s3:`` here. ``./s3:/lake`` is one.
    """
    match = _SCHEME.fullmatch(url)
    if match is None or url.startswith(SCHEME):
        return
    scheme, slashes, rest = match.groups()
    if scheme.lower() in _OF_S3:
        raise OptionError(f"{url!r} is no URL of an object store: write {SCHEME}{rest or 'BUCKET/PREFIX'}")
    if slashes == "/" or (slashes and not rest):
        written = f"/{rest}" if scheme.lower() == "file" else f"{scheme}://{rest or 'HOST/PATH'}"
        raise OptionError(f"{url!r} is no URL of a folder: write {written}")


def needs_spark(place: Location) -> bool:
    """Return whether the store of a location can be opened only while Spark runs."""
    return "://" in place.url and not place.url.startswith(SCHEME)


def open_store(place: Location, spark: SparkSession | None) -> Store:
    """Return the store of a location, without touching it.

    Args: spark: for URLs that Hadoop knows.
    Raises: OptionError: no such place, or it needs Spark. ExtraNeeded.
    """
    check_url(place.url)
    if "://" not in place.url:
        return LocalStore(place.url)
    if place.url.startswith(SCHEME):
        return S3Store(place)
    if spark is None:
        raise OptionError(f"{place.url!r} needs a running Spark")
    return HadoopStore(spark, place.url)
