"""The demos behind `kqueue demo`: real clients against a real broker, with every result checked.

delivery_demo    flights through a broker that restarts half way; none lost, doubled or reordered
pipeline/        the same flights as a stream that Spark aggregates, compared with plain Python
"""
