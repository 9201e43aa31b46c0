"""Readers and writers of a log's files, which are byte for byte Kafka's."""
