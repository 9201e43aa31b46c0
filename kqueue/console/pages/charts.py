"""Charts: the last hours of topics, groups and brokers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kqueue.client import TopicMetadata
from kqueue.client.errors import BrokerRefused
from kqueue.console.charts.line_chart import SERIES_MAX, ChartSeries, LineChart, line_chart
from kqueue.console.charts.units import Unit
from kqueue.console.history.broker_metrics import VALUES
from kqueue.console.history.cluster_history import ClusterHistory
from kqueue.console.history.series import Point
from kqueue.console.page import Page
from kqueue.console.time_ranges import chosen_range, time_ranges

NAME_CHARACTERS_MAX = 250
UNITS = {
    "requests": Unit.REQUESTS_PER_S,
    "errors": Unit.ERRORS_PER_S,
    "bytes_in": Unit.BYTES_PER_S,
    "bytes_out": Unit.BYTES_PER_S,
    "handling_p99": Unit.SECONDS,
    "loop_delay_p99": Unit.SECONDS,
    "connections": Unit.COUNT,
    "waiting_requests": Unit.COUNT,
    "memory": Unit.BYTES,
    "cpu": Unit.PROCESSORS,
    "free": Unit.BYTES,
}


def charts(request: Request) -> Response:
    """Show charts of the topics, groups and brokers that the session's client may see."""
    page = Page(request)
    history = page.history
    topic = page.query.get("topic", "").strip()[:NAME_CHARACTERS_MAX]
    chosen = chosen_range(page.query)
    topics = page.cluster().topics
    with page.client() as client:
        try:
            groups: Collection[str] = client.groups()
        except BrokerRefused:
            groups = ()
    sections: list[tuple[str, list[LineChart]]] = []
    if history is not None:
        of_topics = topic_charts(history, topics, topic, chosen)
        sections.append(("Topics and groups", [*of_topics, *group_lag_charts(history, groups, chosen)]))
        sections.append(("Cluster", cluster_charts(history, chosen)))
        sections.append(("Brokers, by their metrics", broker_charts(history, chosen)))
    return page.render(
        "charts_page.html",
        title="Charts",
        sections=[section for section in sections if section[1]],
        ranges=time_ranges(history, chosen) if history is not None else [],
        topics=[("", "the busiest"), *((name, name) for name in sorted(topics))],
        topic=topic,
        chosen=chosen,
        history=history,
        latest=history.latest if history is not None else None,
        has_metrics=bool(history is not None and history.loads),
    )


def topic_charts(
    history: ClusterHistory, topics: Mapping[str, TopicMetadata], topic: str, chosen: int
) -> list[LineChart]:
    """Return the charts of one topic; "": of the busiest of these that are not internal."""
    names = [topic] if topic in topics else _first(history.busiest_topics(), topics.keys() - internal(topics))
    return [
        _chart(
            "records", "Records written", names, lambda name: history.topic_records(name, chosen), Unit.RECORDS_PER_S
        ),
        _chart("bytes", "Bytes written", names, lambda name: history.topic_bytes(name, chosen), Unit.BYTES_PER_S),
        _chart("sizes", "Size, of one replica", names, lambda name: history.topic_sizes(name, chosen), Unit.BYTES),
    ]


def internal(topics: Mapping[str, TopicMetadata]) -> set[str]:
    """Return the names of internal topics."""
    return {name for name, topic in topics.items() if topic.is_internal}


def group_lag_charts(history: ClusterHistory, groups: Collection[str], chosen: int) -> list[LineChart]:
    """Return the chart of the lags of those of these groups that have the most."""
    names = _first(history.busiest_groups(), groups)
    return [_chart("lags", "Lag of groups", names, lambda name: history.group_lags(name, chosen), Unit.RECORDS)]


def cluster_charts(history: ClusterHistory, chosen: int) -> list[LineChart]:
    """Return the charts of the brokers and of partitions in trouble."""
    troubles = ("under-replicated", "unavailable")
    return [
        _chart("brokers", "Brokers that answer", ["brokers"], lambda name: history.cluster(name, chosen), Unit.COUNT),
        _chart("troubles", "Partitions in trouble", troubles, lambda name: history.cluster(name, chosen), Unit.COUNT),
    ]


def broker_charts(history: ClusterHistory, chosen: int) -> list[LineChart]:
    """Return a chart of each value of the brokers' metrics, with a line for each broker."""
    urls = [load.url for load in history.loads]
    if not urls:
        return []
    charts = []
    for name, title in VALUES.items():
        lines = [ChartSeries(url, history.metrics(url, name, chosen)) for url in urls[:SERIES_MAX]]
        charts.append(line_chart(f"metrics-{name.replace('_', '-')}", title, lines, UNITS[name]))
    return charts


def _chart(
    id: str, title: str, names: Iterable[str], points: Callable[[str], Sequence[Point]], unit: Unit
) -> LineChart:
    return line_chart(id, title, [ChartSeries(name, points(name)) for name in names], unit)


def _first(names: Iterable[str], visible: Collection[str]) -> list[str]:
    """Return the first names of those that the session's client may see."""
    return [name for name in names if name in visible][:SERIES_MAX]


ROUTES: Sequence[Route] = [Route("/charts", charts)]
