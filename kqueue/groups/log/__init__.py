"""The records of `__consumer_offsets`: their frames, writing and replay.

Here are the codecs of offsets and classic groups, and the keys of all groups. The values of modern
groups are encoded by their types (`consumer.records`, `share.records`, `streams.records`).
Imports nothing of `groups`.
"""
