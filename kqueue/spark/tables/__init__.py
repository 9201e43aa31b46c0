"""Tables that a job writes batch by batch, each batch atomically and once.

They are Parquet files in a folder, with or without Delta Lake's log.
"""

from kqueue.spark.tables.folder import FORMATS, Format, Tables, check_tables, has_tables, open_tables
from kqueue.spark.tables.table import Table

__all__ = ["FORMATS", "Format", "Table", "Tables", "check_tables", "has_tables", "open_tables"]
