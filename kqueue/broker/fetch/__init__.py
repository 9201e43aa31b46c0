"""Fetch: reads committed batches for consumers and followers.

`FetchReader` makes one pass over the partitions of a request; `FetchSessions` remember what a
client has seen (KIP-227), `FollowerSessions` what a follower fetches and how far it is. A fetch
that finds too little waits in the purgatory until a partition advances.
Called by the handlers of Fetch and `share`. Imports `topics` and `replicas`; knows no wire
messages.
"""
