"""Reads queries of Prometheus as far as tests need it."""

from __future__ import annotations

import re

from kqueue.telemetry.metrics import BY_NAME, Kind

OF_PROCESS = {"process_resident_memory_bytes": (), "process_cpu_seconds_total": (), "up": ()}
OF_SCRAPE = {"job", "instance"}


def check_query(query: str) -> set[str]:
    """Fail if a query names a metric, or a label of it, that brokers do not serve. Return the
    labels by which it groups.
    """
    labels = set(OF_SCRAPE)
    names = re.findall(r"\b(kqueue_\w+|process_\w+|up\b)", query)
    assert names, query
    for name in names:
        if name in OF_PROCESS:
            continue
        metric = BY_NAME[re.sub(r"_(total|bucket|count)$", "", name)]
        assert name.endswith("_total") == (metric.kind is Kind.COUNTER), name
        assert name.endswith(("_bucket", "_count")) == (metric.kind is Kind.HISTOGRAM), name
        labels |= set(metric.labels)
    grouped = {label.strip() for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(",")}
    matched = set(re.findall(r"[{,]\s*(\w+)=", query))
    assert (grouped | matched) - {"le"} <= labels, query
    assert query.count("(") == query.count(")")
    return grouped - {"le"} or labels
