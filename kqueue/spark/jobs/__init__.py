"""The jobs: they read and write, and leave what is made of records to `kqueue.spark.transforms`.

`ingest` and `archive` may be run again and again, and take what has come since; each record counts
once, because Spark keeps what it has done in checkpoints beside the results. Killed, they go on
where they stood.
"""
