"""The data folders of a broker: identity, checkpoints, and the partitions in them."""
