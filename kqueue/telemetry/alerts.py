"""Rules for alerts of Prometheus: what to wake somebody for, and what to look at the next day."""

from __future__ import annotations

import json
from typing import NamedTuple


class Alert(NamedTuple):
    """One rule. `lasts`: how long `condition` must hold. `remedy`: what to do about it."""

    name: str
    severity: str
    condition: str
    lasts: str
    meaning: str
    remedy: str


PAGE, TICKET = "page", "ticket"
ALERTS = (
    Alert(
        "KqueueDown", PAGE, 'up{job="kqueue"} == 0', "2m",
        "The broker {{ $labels.instance }} is not scraped.",
        "See whether its process runs; kqueue.metrics.listener must be set.",
    ),
    Alert(
        "KqueueNotReady", PAGE, "kqueue_ready == 0", "15m",
        "The broker {{ $labels.instance }} has not recovered all it has.",
        "kqueue health says the reasons; after a crash recovery takes as long as its logs are read.",
    ),
    Alert(
        "KqueueOfflinePartitions", PAGE, "kqueue_offline_partitions > 0", "2m",
        "{{ $value }} partitions of {{ $labels.instance }} are offline.",
        "kqueue cluster describe names them; a log that failed says why in the broker's log.",
    ),
    Alert(
        "KqueueUnderMinIsr", PAGE, "kqueue_under_min_isr_partitions > 0", "2m",
        "acks=all is refused for {{ $value }} partitions of {{ $labels.instance }}.",
        "Bring the brokers back that hold their replicas.",
    ),
    Alert(
        "KqueueUnderReplicated", TICKET, "kqueue_under_replicated_partitions > 0", "15m",
        "{{ $value }} partitions of {{ $labels.instance }} have a replica that lags behind.",
        "See which broker is away or slow, or move the replicas.",
    ),
    Alert(
        "KqueueFolderOffline", PAGE, "kqueue_offline_folders > 0", "1m",
        "A data folder of {{ $labels.instance }} can't be used.",
        "Its disk has failed: the broker's log says how. Restart once it is well.",
    ),
    Alert(
        "KqueueDiskAtReserve", PAGE, "kqueue_folder_free_bytes < kqueue_folder_reserve_bytes", "1m",
        "The disk of {{ $labels.folder }} of {{ $labels.instance }} is full: producers are refused.",
        "Delete topics or records, or add disk: kqueue log-dirs shows what takes it.",
    ),
    Alert(
        "KqueueDiskFillsUp", TICKET, "kqueue_folder_free_bytes < 0.1 * kqueue_folder_total_bytes", "10m",
        "{{ $labels.folder }} of {{ $labels.instance }} has less than a tenth of its disk free.",
        "Shorten retention, move partitions, or add disk: kqueue log-dirs shows what takes it.",
    ),
    Alert(
        "KqueueGroupFallsBehind", TICKET,
        "sum by (group) (kqueue_group_lag) > 10000 and sum by (group) (delta(kqueue_group_lag[15m])) > 0", "15m",
        "The group {{ $labels.group }} is {{ $value }} records behind, and falls further behind.",
        "kqueue groups describe shows where; see whether its members run and keep up.",
    ),
    Alert(
        "KqueueNoController", PAGE, "sum by (job) (kqueue_active_controller) == 0", "2m",
        "No broker of {{ $labels.job }} is the controller: no leader is elected.",
        "See whether the metadata store answers; each broker's log says when it tries.",
    ),
    Alert(
        "KqueueStoreSessionLost", PAGE, "kqueue_store_session == 0", "2m",
        "The metadata store does not take the signs of life of {{ $labels.instance }}.",
        "kqueue health says why; without a session the broker is fenced, and leads nothing.",
    ),
    Alert(
        "KqueueInSyncSetsShrink", TICKET,
        'sum by (instance) (increase(kqueue_isr_changes_total{change="shrink"}[30m])) > 5', "5m",
        "Replicas of {{ $labels.instance }} leave the in-sync sets again and again.",
        "A broker or its disk is slow, or the network between them; its log names which has not caught up.",
    ),
    Alert(
        "KqueueFlushFails", PAGE, "increase(kqueue_flush_failures_total[5m]) > 0", "1m",
        "A flush of {{ $labels.instance }} failed: its records are not safe on the disk.",
        "The broker's log names the folder and the error of its disk.",
    ),
    Alert(
        "KqueueCompactionFails", TICKET, "kqueue_cleaner_excluded_logs > 0", "30m",
        "{{ $value }} logs of {{ $labels.instance }} are not compacted, and grow.",
        "The broker's log says why; kqueue log verify checks a log that is damaged.",
    ),
    Alert(
        "KqueueTierCopiesFail", TICKET,
        "sum by (instance) (increase(kqueue_tier_copy_errors_total[15m])) > 3 or kqueue_tier_refused > 0", "15m",
        "{{ $labels.instance }} can't copy segments into the tier: they stay on its disk.",
        "The broker's log says why: the object store, its credentials, or a damaged segment.",
    ),
    Alert(
        "KqueueTransactionHangs", TICKET, "kqueue_transaction_age_seconds_max > 900", "5m",
        "A transaction that {{ $labels.instance }} coordinates is open for {{ $value }} seconds.",
        "kqueue transactions list shows it; consumers with read_committed wait for its end.",
    ),
    Alert(
        "KqueueAuthenticationFails", TICKET,
        "sum by (instance, listener, mechanism) (rate(kqueue_authentication_failures_total[5m])) > 1", "10m",
        "Clients of {{ $labels.instance }} fail to authenticate at {{ $labels.listener }} by {{ $labels.mechanism }}.",
        "The audit log names their addresses: a password that was changed, or somebody who tries them.",
    ),
    Alert(
        "KqueueErrors", TICKET,
        "sum by (instance, error) (rate(kqueue_request_errors_total"
        '{error=~"UNKNOWN_SERVER_ERROR|KAFKA_STORAGE_ERROR|CORRUPT_MESSAGE"}[5m])) > 0', "5m",
        "The broker {{ $labels.instance }} answers {{ $labels.error }}.",
        "Each such error has a line in the broker's log.",
    ),
    Alert(
        "KqueueLoopDelayed", TICKET,
        "histogram_quantile(0.99, sum by (le, instance) (rate(kqueue_loop_delay_seconds_bucket[5m]))) > 0.5", "10m",
        "The event loop of {{ $labels.instance }} is late by half a second: its clients wait.",
        "The broker's log names what holds it (kqueue.watchdog.ms); the machine may be overloaded.",
    ),
)  # fmt: skip


def rules() -> str:
    """Return the file for `rule_files` of Prometheus."""
    lines = ["groups:", "  - name: kqueue", "    rules:"]
    for alert in ALERTS:
        # JSON strings are YAML strings.
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {json.dumps(alert.condition)}",
            f"        for: {alert.lasts}",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f"          summary: {json.dumps(alert.meaning)}",
            f"          description: {json.dumps(alert.remedy)}",
        ]
    return "\n".join(lines) + "\n"
