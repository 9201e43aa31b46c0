"""Tests that need Spark: ``pytest compat_tests/spark``.

A run has one Spark session; each test has its own broker.
"""
