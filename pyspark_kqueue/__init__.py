"""Lets Spark find ``format("kqueue")`` without registration.

Spark's lookup of Python data sources imports every top-level package whose name begins with
``pyspark_`` and uses its `DefaultSource`. Therefore this package is beside `kqueue` and not inside
it; it must not be imported by other code.
"""

from kqueue.spark.datasource import KqueueDataSource as DefaultSource

__all__ = ["DefaultSource"]
