"""Fetch: reads committed batches for consumers and followers.

`DelayedFetch` is one request: it waits in the purgatory until a pass of `read_partitions` finds
enough. `FetchSessions` remember what a client has seen (KIP-227), `FollowerSessions` what a
follower fetches and how far it is; `FetchSessionCaches` has both.
Called by the handlers of Fetch and `share`. Imports `topics` and `replicas`; knows no wire
messages.
"""
