"""Where archives and tables are: a mounted folder, an object store, or what Hadoop knows."""

from kqueue.spark.stores.opening import open_store
from kqueue.spark.stores.store import Location, Store, Written, location_of

__all__ = ["Location", "Store", "Written", "location_of", "open_store"]
