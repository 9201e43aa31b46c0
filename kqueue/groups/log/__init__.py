"""The records of `__consumer_offsets`: their formats, writing and replay."""
