"""Share groups (KIP-932): which records of a partition a group has acquired, and their state."""
