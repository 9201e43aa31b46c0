"""Formats of tiered storage: the keys of objects, segment objects, and the manifest of a partition.

Bytes to values and back, without a store. Every length and number from an object is checked: a
store may hold what somebody else wrote.
"""
