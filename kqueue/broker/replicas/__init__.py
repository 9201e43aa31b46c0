"""Replicas: one partition at this broker, and its place among the partition's replicas.

`Partition` is the main object: log, high watermark, flushes, and whoever waits for them. Its role
(leader, follower, or the sole replica of a single broker) decides who may append and read.
`PartitionHost` names what a partition needs of the broker around it.
Called by `produce`, `fetch`, `coordinators` and the replica fetchers. Imports `kqueue.log` and
`kqueue.replication`.
"""
