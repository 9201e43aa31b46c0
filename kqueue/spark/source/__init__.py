"""``spark.read`` and ``spark.readStream.format("kqueue")``: options, columns and offsets of Spark's
own Kafka source.

`wire` and `folder` are the two ways to the data, behind one contract (`ways`). `readers` is what
Spark calls; nothing else knows Spark.
"""
