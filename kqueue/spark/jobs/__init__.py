"""The jobs: they do the I/O, and call `kqueue.spark.transforms` for the rest.

`ingest` and `archive` are incremental: each run processes the records since the last one. Each
record counts once, because progress is stored beside the results. After a kill the next run
continues.
"""
