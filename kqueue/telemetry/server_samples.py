"""Samples of the server as a whole: its requests, connections, flushes and upkeep."""

from __future__ import annotations

from collections import Counter

from kqueue.api.request_meter import RequestMeter
from kqueue.base.sliced_task import SlicedWork
from kqueue.base.version import __version__
from kqueue.security.principals import ANONYMOUS, Principal
from kqueue.telemetry.samples import Connections, Samples, Sources
from kqueue.wire.error_codes import ErrorCode


def read_server(samples: Samples, sources: Sources) -> None:
    """Read what the broker is, and whether it serves."""
    broker = sources.broker
    node_id, cluster_id = broker.identity.node_id, broker.logs.cluster_id
    samples.add("kqueue_broker_info", 1, __version__, str(node_id), cluster_id)
    samples.add("kqueue_ready", int(broker.ready.done))
    samples.add("kqueue_logs_to_recover", len(broker.logs.unrecovered()))
    samples.add("kqueue_loop_delay_seconds", sources.loop_delay)
    samples.add("kqueue_jobs", sources.jobs())
    samples.add("kqueue_offline_folders", len(broker.logs.offline))
    samples.folders, _ = broker.logs.list_log_dirs(())


def read_requests(samples: Samples, meter: RequestMeter) -> None:
    """Read what was counted of requests, by API."""
    for api, counts in meter.apis.items():
        if not counts.requests:
            continue  # a route was made, and its request was refused before its handler
        samples.add("kqueue_requests", counts.requests, api)
        samples.add("kqueue_request_handling_seconds", counts.handling, api)
        if any(counts.waiting.counts):  # most APIs never wait
            samples.add("kqueue_request_waiting_seconds", counts.waiting, api)
        for code, count in counts.errors.items():
            samples.add("kqueue_request_errors", count, api, ErrorCode(code).name)


def read_connections(samples: Samples, connections: Connections) -> SlicedWork[None]:
    """Read the connections, and the requests that wait on them."""
    samples.add("kqueue_waiting_requests", connections.waiting_requests)
    if connections.queued is not None:
        samples.add("kqueue_request_queue_seconds", connections.queued)
    if connections.send_blocked is not None:
        samples.add("kqueue_response_blocked_seconds", connections.send_blocked)
    for (listener, mechanism), count in connections.authentication_failures.items():
        samples.add("kqueue_authentication_failures", count, listener, mechanism)
    delayed: Counter[str] = Counter()
    for session in list(connections.sessions):
        samples.count("kqueue_connections", 1, session.listener, _kind(session.principal))
        delayed.update(session.delayed_apis)
        yield None
    for api, count in delayed.items():
        samples.add("kqueue_delayed_requests", count, api)


def _kind(principal: Principal) -> str:
    if principal == ANONYMOUS:
        return "anonymous"
    return "token" if principal.by_token else "user"


def read_upkeep(samples: Samples, sources: Sources) -> None:
    """Read flushes, compactions and quotas."""
    flushes = sources.flushes
    samples.add("kqueue_flush_seconds", flushes.seconds)
    samples.add("kqueue_flushed_records", flushes.records)
    samples.add("kqueue_flush_failures", flushes.failures)
    cleaner = sources.broker.upkeep.cleanup.cleaner
    counts = cleaner.counts
    samples.add("kqueue_cleaner_runs", counts.runs, "cleaned")
    samples.add("kqueue_cleaner_runs", counts.failures, "failed")
    samples.add("kqueue_cleaner_read_bytes", counts.read_bytes)
    samples.add("kqueue_cleaner_written_bytes", counts.written_bytes)
    samples.add("kqueue_cleaner_seconds", counts.seconds)
    samples.add("kqueue_cleaner_dirty_ratio_max", counts.dirty_ratio_max)
    samples.add("kqueue_cleaner_excluded_logs", len(cleaner.uncleanable))
    if counts.ended_ms is not None:
        samples.add("kqueue_cleaner_last_run_timestamp_seconds", counts.ended_ms / 1000)
    for quota, ms in sources.broker.security.throttled_ms.items():
        samples.add("kqueue_throttled_seconds", ms / 1000, quota)
