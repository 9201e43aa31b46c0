"""Cluster: what a broker does as a member of a cluster.

`Registration` keeps the session, epoch and fencing, `FolderIdentity` proves that the data folders
are those that took part last, `Controller` fences and elects while this broker is it, and
`IsrChanges` proposes in-sync sets of the partitions that it leads. `Replicas` opens and closes logs
as leaderships move; `PartitionChanges` carries out reassignments and elections.
Called by `broker.member`, which joins them, and the admin handlers. The rules themselves are pure
functions in `kqueue.replication`.
"""
