"""Tests of `kqueue.spark` that need no Spark; the others stand in `compat_tests/spark`."""
