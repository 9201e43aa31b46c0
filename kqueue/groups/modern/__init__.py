"""What consumer, share and streams groups have in common; Kafka calls them modern groups."""
