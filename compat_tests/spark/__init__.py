"""What needs Spark: one session for a run of pytest, and a broker for each test. ``pytest
compat_tests.spark``
"""
