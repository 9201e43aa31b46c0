"""Floor 1: what everything stands on; standard library only."""
