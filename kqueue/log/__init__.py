"""The partition log: segments, indexes, recovery, compaction and cleanup policies."""
