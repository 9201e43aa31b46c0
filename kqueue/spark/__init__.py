"""The data pipeline on Apache Spark: source, sink and jobs of ``format("kqueue")``.

It needs `kqueue[spark]`. Only modules that define classes for Spark, or run jobs, import pyspark.
Options, offsets, planning and the exactly-once protocol live in modules without pyspark, so that
they can be tested without it.
"""
