"""Floor 9: the data pipeline on Apache Spark: ``spark.read.format("kqueue")``,
``df.write.format("kqueue")``, and jobs.

It needs `kqueue[spark]`. Spark itself is imported by the modules that hand it classes, and by
nothing else in kqueue; what can be thought through without it (options, offsets, plans, the
protocol of writing once) stands in modules of its own.
"""
