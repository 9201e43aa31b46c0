"""The places of archives and tables: a mounted folder, an object store, or what Hadoop knows."""

from kqueue.spark.stores.opening import check_url, needs_spark, open_store
from kqueue.spark.stores.store import Location, Store, Written, location_of

__all__ = ["Location", "Store", "Written", "check_url", "location_of", "needs_spark", "open_store"]
