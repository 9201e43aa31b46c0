"""The files of a log, byte for byte Kafka's: where each is read and written."""
