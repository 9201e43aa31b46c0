"""History: what a cluster did in the last hours, in memory, without another service.

`Sampler` reads the cluster at an interval on a thread of its own, and records into `History`: rates
and sizes of topics, lags of groups and of their partitions, the state of replicas, and the metrics
of kqueue brokers. `series` bounds the memory: each value has a fixed number of slots, older ones in
coarser steps, and each kind has a fixed number of values, of which the busiest stay. `behind` says
since when a group has not kept up. Nothing here is written to disk; a restart begins anew.
"""
