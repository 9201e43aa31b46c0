"""The dashboard for Grafana: a table of panels, and the JSON that Grafana imports.

It has a variable for the data source, one for the job and one for the topics, so that it fits any
Prometheus that scrapes brokers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

UID = "kqueue"
WIDTH, HEIGHT, COLUMNS = 8, 8, 24
"""Of a panel, in units of Grafana's grid, and the width of that grid."""


class Panel(NamedTuple):
    """One chart. `queries`: of Prometheus, each with the text of its legend. `unit`: Grafana's."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    meaning: str = ""


class Row(NamedTuple):
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


def _rate(metric: str, by: str) -> str:
    return f'sum by ({by}) (rate({metric}{{job=~"$job"}}[$__rate_interval]))'


def _of_topics(metric: str) -> str:
    return f'sum by (topic) (rate({metric}{{job=~"$job", topic=~"$topic"}}[$__rate_interval]))'


def _quantile(share: str, metric: str) -> str:
    return f"histogram_quantile({share}, {_rate(f'{metric}_bucket', 'le, api')})"


def _all(metric: str, by: str = "instance") -> str:
    return f'sum by ({by}) ({metric}{{job=~"$job"}})'


ROWS = (
    Row(
        "Is all well?",
        (
            Panel("Brokers that serve all they have", "short", ((_all("kqueue_ready"), "{{instance}}"),)),
            Panel(
                "Partitions in trouble",
                "short",
                (
                    (_all("kqueue_offline_partitions"), "offline, {{instance}}"),
                    (_all("kqueue_under_replicated_partitions"), "under-replicated, {{instance}}"),
                    (_all("kqueue_under_min_isr_partitions"), "acks=all refused, {{instance}}"),
                ),
            ),
            Panel("Lag of groups", "short", ((_all("kqueue_group_lag", "group"), "{{group}}"),), "Records to read."),
        ),
    ),
    Row(
        "Topics",
        (
            Panel("Records in", "rps", ((_of_topics("kqueue_partition_end_offset"), "{{topic}}"),)),
            Panel("Bytes in", "Bps", ((_of_topics("kqueue_topic_appended_bytes_total"), "{{topic}}"),)),
            Panel("Bytes out", "Bps", ((_of_topics("kqueue_topic_sent_bytes_total"), "{{topic}}"),)),
            Panel("Size of logs", "bytes", ((_all("kqueue_topic_size_bytes", "topic"), "{{topic}}"),)),
            Panel("Groups by state", "short", ((_all("kqueue_groups", "type, state"), "{{type}} {{state}}"),)),
            Panel("Transactions", "short", ((_all("kqueue_transactions", "state"), "{{state}}"),)),
        ),
    ),
    Row(
        "Requests",
        (
            Panel("Requests", "reqps", ((_rate("kqueue_requests_total", "api"), "{{api}}"),)),
            Panel("Errors", "reqps", ((_rate("kqueue_request_errors_total", "api, error"), "{{api}} {{error}}"),)),
            Panel(
                "Handling, 99 of 100", "s", ((_quantile("0.99", "kqueue_request_handling_seconds"), "{{api}}"),),
                "Time on the broker's thread.",
            ),
            Panel(
                "Waiting, 99 of 100", "s", ((_quantile("0.99", "kqueue_request_waiting_seconds"), "{{api}}"),),
                "For a flush, for other replicas, for records.",
            ),
            Panel("Connections", "short", ((_all("kqueue_connections", "listener"), "{{listener}}"),)),
            Panel(
                "Loop delay, 99 of 100", "s",
                (
                    (
                        f"histogram_quantile(0.99, {_rate('kqueue_loop_delay_seconds_bucket', 'le, instance')})",
                        "{{instance}}",
                    ),
                ),
            ),
        ),
    ),
    Row(
        "Machines",
        (
            Panel(
                "Free disk", "bytes",
                ((_all("kqueue_folder_free_bytes", "instance, folder"), "{{instance}} {{folder}}"),),
            ),
            Panel("Memory", "bytes", ((_all("process_resident_memory_bytes"), "{{instance}}"),)),
            Panel("Processor", "short", ((_rate("process_cpu_seconds_total", "instance"), "{{instance}}"),), "Cores."),
        ),
    ),
)  # fmt: skip


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    top = 0
    for row in ROWS:
        panels.append(
            {"type": "row", "title": row.title, "collapsed": False, "panels": [], "id": len(panels) + 1}
            | {"gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1}}
        )
        top += 1
        for number, panel in enumerate(row.panels):
            left = number * WIDTH % COLUMNS
            if number and not left:
                top += HEIGHT
            panels.append(_chart(panel, len(panels) + 1, {"x": left, "y": top, "w": WIDTH, "h": HEIGHT}))
        top += HEIGHT
    return {
        "uid": UID,
        "title": "kqueue",
        "tags": ["kqueue"],
        "schemaVersion": 39,
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": panels,
    }


def _chart(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${source}"}
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.meaning,
        "datasource": source,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": source, "expr": query, "legendFormat": legend}
            for index, (query, legend) in enumerate(panel.queries)
        ],
    }


def _variables() -> list[dict[str, Any]]:
    def of_label(name: str, label: str) -> dict[str, Any]:
        query = f"label_values({label})"
        return {
            "name": name,
            "type": "query",
            "datasource": {"type": "prometheus", "uid": "${source}"},
            "query": {"query": query, "refId": name},
            "definition": query,
            "includeAll": True,
            "multi": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
            "refresh": 2,
            "sort": 1,
        }

    return [
        {"name": "source", "type": "datasource", "query": "prometheus", "label": "Data source"},
        of_label("job", "kqueue_ready, job"),
        of_label("topic", 'kqueue_topic_appended_bytes_total{job=~"$job"}, topic'),
    ]
