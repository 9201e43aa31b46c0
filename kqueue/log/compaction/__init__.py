"""Log compaction: rewrites sealed segments, keeping the latest record per key.

`compaction_task` runs in its own process, without an open `Log`; `swap_files` then puts its result
in place of the old segments.
"""
