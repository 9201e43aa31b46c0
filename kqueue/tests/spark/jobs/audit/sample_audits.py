"""Partitions of an audit, as charts and pages show them."""

from __future__ import annotations

from kqueue.client import TopicPartition
from kqueue.spark.jobs.audit.partition_summary import CELLS, Times
from kqueue.spark.jobs.audit.report import PartitionAudit

T0, T1, KEYS = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("keys", 0)
HOUR, HOURS = 4, 472_222
"""Of `Times`: the level of hours, and the number of an hour."""


def partition_audit(partition: int, times: Times, **more: object) -> PartitionAudit:
    count = sum(times.counts.values())
    parts = {
        "records": count,
        "first": 0,
        "last": count - 1,
        "cells": [1] * CELLS,
        "largest": 5,
        "largest_offset": 1,
        "value_bytes": 5,
    }
    return PartitionAudit("orders", partition, 0, 2 * CELLS, times=times, **{**parts, **more})  # type: ignore[arg-type]
