"""``spark.read`` and ``spark.readStream.format("kqueue")``.

Options, columns and offsets are those of Spark's own Kafka source. `broker_reader`,
`file_reader`, `tier_reader` and `combined_reader` implement `record_reader.RecordReader`. Only
`spark_readers` imports pyspark.
"""
