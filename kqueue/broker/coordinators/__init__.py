"""Coordinators: the internal topics that keep groups, transactions and share state.

`Coordinators` is the main object. Each `InternalTopicLog` writes and reads one of them;
`CoordinatorLoads` loads the partitions that this broker leads; `TransactionMarkers` and
`transaction_routes` end transactions in their partitions.
Called by the coordinators of `kqueue.groups`, `kqueue.transactions` and `kqueue.share`, which
know no topics. Imports `topics`, `replicas` and `upkeep`.
"""
