"""The version of kqueue."""

__version__ = "0.1.0"
KAFKA_VERSIONS = ("2.8", "3.9", "4.3")
"""Versions of Kafka whose APIs a broker can serve in place of its own: `kqueue.as.version`."""
