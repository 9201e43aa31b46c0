"""Consumer groups: the broker assigns, and members reconcile one by one (KIP-848)."""
