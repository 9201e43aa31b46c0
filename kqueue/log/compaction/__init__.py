"""Compaction: sealed segments are rewritten so that the last record of each key stays, beside the
log and without it.

`task` is the way in, `swap` puts its result in the place of the old segments.
"""
