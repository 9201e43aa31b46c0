"""Share groups (KIP-932): share partitions at their leader.

`ShareGroups` opens share partitions from their persisted state and closes them; `ShareReader`
reads what is available; `SharePersister` stores states at the share coordinators; `DeadLetters`
copies what a group gives up.
Called by the handlers of the share APIs. Imports `fetch`, `configs` and `topics`.
"""
