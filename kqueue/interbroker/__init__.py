"""Requests between the brokers of a cluster. Knows messages and broker objects, and no sockets."""
