"""Produce: the way of a batch from a request to the log.

`DelayedProduce` is one request: it appends to all partitions, at once or in slices, and waits for
what `acks` asks; `ProduceHost` is what all requests share. `ProduceAppender` validates, converts
and appends the batches of one partition; `ProduceTransaction` asks the coordinator once per request
whether a transaction may write.
Called by the handler of Produce, by raw appends of the broker, and by `topics`, which gives each
topic its append path. Imports `replicas`; knows no wire messages.
"""
