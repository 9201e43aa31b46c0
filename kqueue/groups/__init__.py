"""Group coordination: members, rebalances, committed offsets and their records."""
