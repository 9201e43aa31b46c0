"""Tiered storage at a broker (KIP-405): what is copied, deleted and read, when, by which threads.

`TierManager` looks at all partitions of tiered topics at an interval: leaders claim the manifest,
copy sealed segments and delete expired ones; followers learn what was copied. `TierReads` reads for
consumers. Everything that waits for the store is a job in a pool of its own (`tier_pools`), so that
a slow store delays neither disks nor requests, and slow reads no copies.
Called by `Broker` and, through `PartitionHost.tier`, by fetches. Imports `kqueue.tier`, `topics`
and `upkeep`. State belongs to the owner thread.
"""
