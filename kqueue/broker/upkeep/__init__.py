"""Upkeep: what happens to logs without a request.

`LogUpkeep` is the main object. `CleanupScheduler` runs the cleanup policies; `LogRecovery` recovers
logs after a crash beside the clients; `LogDirMoves` moves logs between folders; `RecordDeletion`
raises log starts; `Backlogs` bound what is unread; `TopicFolders` creates and deletes folders;
`LogTimers` writes checkpoints.
Called by timers and the admin handlers. Imports `topics` and `kqueue.log`.
"""
