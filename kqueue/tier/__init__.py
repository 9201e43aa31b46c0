"""Tiered storage: sealed segments of logs as objects in a store beside the disks (KIP-405).

`stores` are the object stores and their contract. All functions block: a broker runs them in jobs,
commands and Spark in the thread of the caller. Imports `log`, `records`, `storage`; knows no
broker, and starts no thread.
"""
