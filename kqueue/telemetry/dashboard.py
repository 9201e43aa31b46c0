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


def _ratio(metric: str, by_metric: str, by: str) -> str:
    return f"{_rate(metric, by)} / {_rate(by_metric, by)}"


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
            Panel(
                "Age of the lag", "s",
                (('max by (group) (kqueue_group_lag_age_seconds{job=~"$job"})', "{{group}}"),),
                "For how long the oldest record that a group has not read has been there, at least.",
            ),
            Panel(
                "Replication", "short",
                (
                    (_all("kqueue_replication_lag", "follower"), "records that broker {{follower}} lacks"),
                    (_rate("kqueue_isr_changes_total", "change"), "in-sync sets, {{change}} per second"),
                ),
            ),
            Panel(
                "Cluster", "short",
                (
                    (_all("kqueue_active_controller"), "controller, {{instance}}"),
                    (_all("kqueue_store_session"), "session with the store, {{instance}}"),
                    ('max by (state) (kqueue_cluster_brokers{job=~"$job"})', "brokers, {{state}}"),
                ),
            ),
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
            Panel(
                "Transactions that end", "ops", ((_rate("kqueue_transactions_ended_total", "result"), "{{result}}"),),
            ),
            Panel(
                "Oldest open transaction", "s",
                (('max by (instance) (kqueue_transaction_age_seconds_max{job=~"$job"})', "{{instance}}"),),
                "Consumers with read_committed wait for it.",
            ),
        ),
    ),
    Row(
        "Share groups",
        (
            Panel("Records in flight", "short", ((_all("kqueue_share_records_in_flight", "group"), "{{group}}"),)),
            Panel(
                "Deliveries", "rps",
                (
                    (_rate("kqueue_share_delivered_records_total", "group"), "{{group}}"),
                    (_rate("kqueue_share_redelivered_records_total", "group"), "{{group}}, not the first"),
                ),
            ),
            Panel(
                "Given up", "rps",
                (
                    (_rate("kqueue_share_given_up_records_total", "group, reason"), "{{group}}, {{reason}}"),
                    (_rate("kqueue_share_dead_lettered_records_total", "group"), "{{group}}, dead-lettered"),
                ),
            ),
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
            Panel(
                "Connections", "short",
                ((_all("kqueue_connections", "listener, principal"), "{{listener}}, {{principal}}"),),
            ),
            Panel("In the purgatory", "short", ((_all("kqueue_delayed_requests", "api"), "{{api}}"),)),
            Panel(
                "Held back by quotas", "short",
                ((_rate("kqueue_throttled_seconds_total", "quota"), "{{quota}}"),),
                "Seconds of waiting per second, of all clients.",
            ),
            Panel(
                "Failed authentications", "ops",
                ((_rate("kqueue_authentication_failures_total", "listener, mechanism"), "{{listener}} {{mechanism}}"),),
            ),
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
                (
                    (_all("kqueue_folder_free_bytes", "instance, folder"), "{{instance}} {{folder}}"),
                    (_all("kqueue_folder_reserve_bytes", "instance, folder"), "reserve, {{instance}} {{folder}}"),
                ),
            ),
            Panel(
                "Flush, 99 of 100", "s",
                (
                    (
                        f"histogram_quantile(0.99, {_rate('kqueue_flush_seconds_bucket', 'le, instance')})",
                        "{{instance}}",
                    ),
                ),
            ),
            Panel(
                "Records in a flush", "short",
                (
                    (_ratio("kqueue_flushed_records_total", "kqueue_flush_seconds_count", "instance"), "{{instance}}"),
                ),
            ),
            Panel(
                "Compaction", "Bps",
                (
                    (_rate("kqueue_cleaner_read_bytes_total", "instance"), "read, {{instance}}"),
                    (_rate("kqueue_cleaner_written_bytes_total", "instance"), "written, {{instance}}"),
                ),
            ),
            Panel(
                "Largest share that is not compacted", "percentunit",
                (('max by (instance) (kqueue_cleaner_dirty_ratio_max{job=~"$job"})', "{{instance}}"),),
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
