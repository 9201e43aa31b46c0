"""Topics: the list, one topic with its partitions, and the forms that create and change topics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kqueue.admin.log_dirs import TopicSize, topic_sizes
from kqueue.admin.log_ends import log_ends
from kqueue.base.settings import INT_MAX
from kqueue.client import EARLIEST, Client, ClusterMetadata, LogDir, NewTopic, TopicMetadata, TopicPartition
from kqueue.client.errors import BrokerRefused, ClientError
from kqueue.console.charts.line_chart import ChartSeries, LineChart, line_chart
from kqueue.console.charts.units import Unit, value_text
from kqueue.console.cluster_counts import TopicCounts, topic_counts
from kqueue.console.history.cluster_history import ClusterHistory
from kqueue.console.listing import listing
from kqueue.console.page import Crumb, Page, form_error
from kqueue.console.partition_rows import partition_rows, replica_states, spread
from kqueue.console.problems import Problem, UnknownResource, or_problem

STATES = (("", "any"), ("leaderless", "without a leader"), ("under-replicated", "under-replicated"))
PARTITIONS_MAX = 2_000
"""Partitions of one page that are asked for offsets and sizes; with more these are left out."""
TOPICS = Crumb("Topics", "/topics")
NAME_CHARACTERS_MAX = 249
SETTINGS_MAX = 100


def topics(request: Request) -> Response:
    """Show the topics, with the state of their partitions, records and sizes."""
    page = Page(request)
    state = page.query.get("state", "")
    internal = "internal" in page.query
    metadata = page.cluster()
    rows = sorted(_selected(metadata, state, internal), key=lambda row: row.name)
    shown = listing(rows, page.query, lambda row: row.name, keep=("state", "internal"))
    with page.client() as client:
        records, sizes = _figures(client, metadata, shown.rows)
    return page.render(
        "topics.html",
        title="Topics",
        listing=shown,
        records=records,
        sizes=sizes,
        growth=growth_texts(page.history, [row.name for row in shown.rows]),
        states=STATES,
        state=state,
        internal=internal,
    )


def _selected(metadata: ClusterMetadata, state: str, internal: bool) -> Iterable[TopicCounts]:
    for topic in metadata.topics.values():
        if topic.is_internal and not internal:
            continue
        row = topic_counts(topic)
        if (state == "leaderless" and not row.leaderless) or (state == "under-replicated" and not row.under_replicated):
            continue
        yield row


def _figures(
    client: Client, metadata: ClusterMetadata, rows: Iterable[TopicCounts]
) -> tuple[Mapping[str, int], Mapping[str, TopicSize]]:
    """Return the offsets that each topic spans, and its size, of those of which all is known."""
    described = {row.name: metadata.topics[row.name] for row in rows}
    partitions = [one for topic in described.values() for one in topic.topic_partitions]
    if not partitions or len(partitions) > PARTITIONS_MAX:
        return {}, {}
    ends = log_ends(client, described.values()).ends
    try:
        starts = client.offsets(dict.fromkeys(ends, EARLIEST)) if ends else {}
    except ClientError as error:
        starts = dict(error.done)
    records: dict[str, int] = {}
    for topic in described.values():
        spans = [
            ends[one] - (starts[one].offset or 0) if one in ends and one in starts else None
            for one in topic.topic_partitions
        ]
        if None not in spans:
            records[topic.name] = sum(filter(None, spans))
    dirs = log_dirs_of(client, metadata, partitions)
    return records, topic_sizes(dirs, ClusterMetadata(metadata.brokers, described))


def growth_texts(history: ClusterHistory | None, names: Collection[str]) -> dict[str, tuple[str, str]] | None:
    """Return how many records and bytes are written to each topic in a second, as texts; None: the
    console keeps no history.
    """
    if history is None:
        return None
    rates = history.latest.topics
    return {
        name: (
            f"{value_text(rates[name].records_per_s, Unit.RECORDS_PER_S)} {Unit.RECORDS_PER_S.value}",
            value_text(rates[name].bytes_per_s, Unit.BYTES_PER_S),
        )
        for name in names
        if name in rates
    }


def log_dirs_of(
    client: Client, metadata: ClusterMetadata, partitions: Iterable[TopicPartition]
) -> dict[int, list[LogDir]]:
    """Return the folders of each broker, with these partitions only; without brokers that fail."""
    wanted = list(partitions)
    folders: dict[int, list[LogDir]] = {}
    for node_id in metadata.brokers:
        try:
            folders[node_id] = client.cluster.log_dirs(node_id, wanted)
        except ClientError:
            continue
    return folders


def topic(request: Request) -> Response:
    """Show one topic: partitions with leader, replicas, offsets and size."""
    page = Page(request)
    name = request.path_params["name"]
    problems: list[Problem] = []
    with page.client() as client:
        described, metadata = named_topic(client, name)
        shown = listing(sorted(described.partitions), page.query, str)
        description = or_problem(client.cluster.describe, [])
        moving = or_problem(lambda: client.cluster.reassignments(described.topic_partitions), problems) or {}
        dirs = log_dirs_of(client, metadata, described.topic_partitions)
        rows = partition_rows(client, described, shown.rows, replica_states(metadata, description, dirs, moving))
    counts = topic_counts(described, {(one.topic, one.partition) for one, move in moving.items() if move.adding})
    return page.render(
        "topic.html",
        title=name,
        crumbs=(TOPICS,),
        topic=described,
        counts=counts,
        replicas=spread(described.partitions.values()),
        size=topic_sizes(dirs, ClusterMetadata(metadata.brokers, {name: described})).get(name),
        listing=shown,
        rows=rows,
        moving=len(moving),
        growth=growth_texts(page.history, [name]),
        charts=growth_charts(page.history, name),
        problems=problems,
    )


def growth_charts(history: ClusterHistory | None, name: str) -> list[LineChart]:
    """Return charts of what is written to a topic, and of its size; none without a history."""
    if history is None:
        return []
    shown = (
        ("records", "Records written", history.topic_records(name), Unit.RECORDS_PER_S),
        ("sizes", "Size, of one replica", history.topic_sizes(name), Unit.BYTES),
    )
    return [line_chart(id, title, [ChartSeries(name, points)], unit) for id, title, points, unit in shown if points]


def named_topic(client: Client, name: str) -> tuple[TopicMetadata, ClusterMetadata]:
    """Return a topic, and the metadata with the brokers. Raises: UnknownResource, ClientError."""
    try:
        metadata = client.metadata([name])
    except BrokerRefused as error:
        if error.code_name in ("UNKNOWN_TOPIC_OR_PARTITION", "INVALID_TOPIC_EXCEPTION"):
            raise UnknownResource(f"There is no topic {name!r}.") from None
        raise
    return metadata.topics[name], metadata


def create(request: Request) -> Response:
    """Show the form for a new topic, or create it."""
    page = Page(request)
    problem = None
    if request.method == "POST":
        name = page.field("name", characters_max=NAME_CHARACTERS_MAX + 50)
        try:
            new = NewTopic(
                name,
                whole_number(page.field("partitions"), "partitions"),
                whole_number(page.field("replicas"), "replicas"),
                parse_settings(page.field("settings")),
            )
            if not name:
                raise ValueError("A topic needs a name.")
            details = {"partitions": str(new.partitions), "settings": page.field("settings")}
            with page.client() as client, page.change("create topic", name, details):
                client.create_topics([new])
        except Exception as error:
            problem = form_error(error)
        else:
            page.flash(f"Created topic {name}.")
            return page.redirect(f"/topics/{name}")
    return page.render(
        "topic_create.html",
        title="Create topic",
        crumbs=(TOPICS,),
        status=200 if problem is None else problem.status,
        problem=problem,
        values={name: page.field(name) for name in ("name", "partitions", "replicas", "settings")},
    )


def whole_number(text: str, what: str) -> int:
    """Return a number of 1 or more; -1 for no text: the broker's default. Raises: ValueError."""
    if not text:
        return -1
    if not (text.isascii() and text.isdigit() and len(text) < 11 and 0 < int(text) <= INT_MAX):
        raise ValueError(f"{what}: expected a whole number from 1 on, found {text!r:.60}")
    return int(text)


def parse_settings(text: str) -> dict[str, str]:
    """Return settings of lines ``name=value``. Raises: ValueError: a line is not so, or twice."""
    settings: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.partition("=")
        name = name.strip()
        if not equals or not name:
            raise ValueError(f"settings: expected NAME=VALUE on each line, found {line!r:.60}")
        if name in settings:
            raise ValueError(f"settings: {name!r:.60} is there twice")
        settings[name] = value.strip()
    if len(settings) > SETTINGS_MAX:
        raise ValueError(f"settings: expected up to {SETTINGS_MAX}, found {len(settings)}")
    return settings


def add_partitions(request: Request) -> Response:
    """Show the form that adds partitions, or add them."""
    page = Page(request)
    name = request.path_params["name"]
    problem = None
    with page.client() as client:
        described, _ = named_topic(client, name)
        if request.method == "POST":
            try:
                count = whole_number(page.field("count"), "partitions")
                if count <= len(described.partitions):
                    raise ValueError(f"The topic has {len(described.partitions)} partitions: give a larger number.")
                with page.change("add partitions", name, {"count": str(count)}):
                    client.create_partitions(name, count)
            except Exception as error:
                problem = form_error(error)
            else:
                page.flash(f"Topic {name} now has {count} partitions.")
                return page.redirect(f"/topics/{name}")
    return page.render(
        "topic_partitions.html",
        title="Add partitions",
        crumbs=(TOPICS, Crumb(name, f"/topics/{name}")),
        status=200 if problem is None else problem.status,
        problem=problem,
        name=name,
        count=len(described.partitions),
        value=page.field("count") or len(described.partitions) + 1,
    )


def delete(request: Request) -> Response:
    """Ask for the name of the topic, or delete it."""
    page = Page(request)
    name = request.path_params["name"]
    problem = None
    with page.client() as client:
        described, _ = named_topic(client, name)
        if request.method == "POST":
            try:
                if page.field("confirmed") != name:
                    raise ValueError("The name that was typed is not the topic's. Nothing was deleted.")
                with page.change("delete topic", name):
                    client.delete_topics([name])
            except Exception as error:
                problem = form_error(error)
            else:
                page.flash(f"Deleted topic {name}.")
                return page.redirect("/topics")
    return page.render(
        "topic_delete.html",
        title="Delete topic",
        crumbs=(TOPICS, Crumb(name, f"/topics/{name}")),
        status=200 if problem is None else problem.status,
        problem=problem,
        name=name,
        partitions=len(described.partitions),
    )


ROUTES = [
    Route("/topics", topics),
    Route("/create-topic", create, methods=["GET", "POST"]),
    Route("/topics/{name}/partitions", add_partitions, methods=["GET", "POST"]),
    Route("/topics/{name}/delete", delete, methods=["GET", "POST"]),
    Route("/topics/{name}", topic),
]
