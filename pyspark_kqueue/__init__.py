"""Spark looks for modules called ``pyspark_…`` and takes their `DefaultSource`: so
``format("kqueue")`` needs no registration.
"""

from kqueue.spark.datasource import KqueueDataSource as DefaultSource

__all__ = ["DefaultSource"]
