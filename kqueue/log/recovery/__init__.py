"""Opening a log: what is whole, what is damaged, what becomes of either."""
