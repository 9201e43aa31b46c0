"""The rules of replication: registrations, placement, elections, in-sync replicas.

Pure functions and state machines, without a store, a log, a socket or a clock.
"""
