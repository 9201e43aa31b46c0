"""Replicas: one partition at this broker, and its place among the partition's replicas.

`Partition` is the main object, composed of parts: its `Replica` (leader, follower, or the sole one
of a single broker) decides who may append and what is committed, `PartitionFlush` flushes for all
who wait, `HighWatermark` bounds what is shown, and `LogFollower` changes a follower's log.
`PartitionHost` is what the partitions of a broker share.
Called by `produce`, `fetch`, `coordinators` and the replica fetchers. Imports `kqueue.log` and
`kqueue.replication`.
"""
