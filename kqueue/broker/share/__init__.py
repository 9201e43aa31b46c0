"""Share groups (KIP-932): share partitions at their leader.

`ShareGroups` opens share partitions from their persisted state and closes them; a
`DelayedShareFetch` waits until `ShareReader` has read enough, and acquires it;
`ShareAcknowledgements` are those of one request; `SharePersister` stores states at the share
coordinators; `DeadLetters` copies what a group gives up.
Called by the handlers of the share APIs. Imports `fetch`, `configs` and `topics`.
"""
