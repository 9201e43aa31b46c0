"""Messages of a topic: a page of them, a search, and one message with key, headers and value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kqueue.client import Client, TopicMetadata
from kqueue.client.metadata import NO_LEADER
from kqueue.console.listing import listing
from kqueue.console.messages.message import Fault, Message
from kqueue.console.messages.message_page import (
    MessagePage,
    OffsetRange,
    ReadLimits,
    ReadRequest,
    offset_ranges,
    offsets_at,
    read_message,
    read_page,
)
from kqueue.console.messages.positions import PARTITIONS_MAX, position_text
from kqueue.console.messages.query import COUNTS, STARTS, MessageQuery, parse_offset, parse_time, query_of
from kqueue.console.messages.search_filter import SearchFilter
from kqueue.console.messages.value_view import FORMS, ValueReader, ValueView
from kqueue.console.page import Crumb, Page, form_error
from kqueue.console.problems import Problem, UnknownResource

KEY_CHARACTERS, VALUE_CHARACTERS, HEADER_CHARACTERS = 60, 200, 60
"""Of one row; a page of more than `ROWS_FULL` has a third, so that no page is large."""
ROWS_FULL = 50
PARTITION_CHOICES_MAX = 300
PAGE_CHARACTERS, KEY_PAGE_CHARACTERS, HEADER_PAGE_CHARACTERS = 12_000, 1_500, 100
HEADERS_SHOWN = 50
PARTS = ("key", "value")


class Row(NamedTuple):
    """A message as an entry of a list. `headers`: their names, cut."""

    message: Message
    key: ValueView
    value: ValueView
    headers: str


def choose_topic(request: Request) -> Response:
    """Show the topics, each with a link to its messages."""
    page = Page(request)
    topics = page.cluster().topics
    names = sorted(name for name, topic in topics.items() if not topic.is_internal or "internal" in page.query)
    shown = listing(names, page.query, keep=("internal",))
    return page.render("messages_topics.html", title="Messages", listing=shown, topics=topics)


def messages(request: Request) -> Response:
    """Show one page of a topic's messages, or of those that a search finds."""
    page = Page(request)
    name = request.path_params["name"]
    problem: Problem | None = None
    scan: MessagePage | None = None
    query, search = MessageQuery(), SearchFilter()
    chosen: list[int] = []
    with page.client() as client:
        topic = topic_of(client, name)
        partitions = list(topic.partitions)
        try:
            query = query_of(page.query)
            search = SearchFilter(query.key, query.text, query.header, query.path, query.form, page.console.reader)
            chosen = query.partitions(partitions)
            scan = _read(client, name, query, search, with_leader(topic, chosen))
        except ValueError as error:
            problem = form_error(error)
    return page.render(
        "messages.html",
        title=f"Messages of {name}",
        crumbs=topic_crumbs(name),
        status=200 if problem is None else problem.status,
        name=name,
        query=query,
        problem=problem,
        scan=scan,
        rows=[] if scan is None else _rows(scan, query, page.console.reader),
        skipped=search.skipped,
        older=_older(query, scan),
        newer=_newer(query, scan),
        partitions=partitions,
        leaderless=sorted(set(chosen) - set(with_leader(topic, chosen))),
        partitions_max=PARTITIONS_MAX,
        partition_choices=[("", "all"), *((one, one) for one in partitions[:PARTITION_CHOICES_MAX])],
        starts=tuple(STARTS.items()),
        counts=COUNTS,
        forms=tuple(page.console.reader.forms.items()),
        total=0 if scan is None else sum(end - start for start, end in scan.ranges.values()),
    )


def message(request: Request) -> Response:
    """Show one message."""
    page = Page(request)
    name, partition, offset = _place(request)
    with page.client() as client:
        shown = _message(client, name, partition, offset)
        ends = offset_ranges(client, name, [partition])[partition]
    reader = page.console.reader
    form, key_form = page.query.get("form", "auto"), page.query.get("key_form", "auto")
    fault = shown if isinstance(shown, Fault) else None
    record = None if isinstance(shown, Fault) else shown
    return page.render(
        "message.html",
        title=f"Message {partition}:{offset}",
        crumbs=(*topic_crumbs(name), Crumb("Messages", f"/topics/{quote(name, safe='')}/messages")),
        name=name,
        partition=partition,
        offset=offset,
        ends=ends,
        message=record,
        fault=fault,
        key=record and reader.view(record.key, key_form, characters_max=KEY_PAGE_CHARACTERS, is_key=True),
        value=record and reader.view(record.value, form, characters_max=PAGE_CHARACTERS),
        headers=[] if record is None else _headers(record, reader),
        form=form,
        key_form=key_form,
        forms=tuple(reader.forms.items()),
        form_names=FORMS,
    )


def download(request: Request) -> Response:
    """Send the bytes of a key or value as a file."""
    page = Page(request)
    name, partition, offset = _place(request)
    part = request.path_params["part"]
    if part not in PARTS:
        raise HTTPException(404, "A message has a key and a value.")
    with page.client() as client:
        shown = _message(client, name, partition, offset)
    if isinstance(shown, Fault):
        raise ValueError(f"The message can't be read: {shown.reason}")
    data = getattr(shown, part).data
    if data is None:
        raise UnknownResource(f"The {part} of this message is null.")
    file = quote(f"{name}-{partition}-{offset}.{part}", safe="")
    disposition = f"attachment; filename*=utf-8''{file}"
    return Response(data, media_type="application/octet-stream", headers={"content-disposition": disposition})


def topic_of(client: Client, name: str) -> TopicMetadata:
    """Return a topic. Raises: UnknownResource, ClientError."""
    topic = client.metadata([name]).topics.get(name)
    if topic is None:
        raise UnknownResource(f"There is no topic {name!r}.")
    return topic


def partitions_of(client: Client, name: str) -> list[int]:
    """Return the partitions of a topic. Raises: UnknownResource, ClientError."""
    return list(topic_of(client, name).partitions)


def with_leader(topic: TopicMetadata, partitions: Sequence[int]) -> list[int]:
    """Return those that have a leader: the others would hold the page up until its timeout."""
    return [one for one in partitions if topic.partitions[one].leader != NO_LEADER]


def topic_crumbs(name: str) -> tuple[Crumb, ...]:
    """Return the pages above those of a topic's messages."""
    return (Crumb("Topics", "/topics"), Crumb(name, f"/topics/{quote(name, safe='')}"))


def _read(client: Client, name: str, query: MessageQuery, search: SearchFilter, chosen: list[int]) -> MessagePage:
    isolation: Any = "read_committed" if query.committed else "read_uncommitted"
    ranges = offset_ranges(client, name, chosen, isolation)
    backward = bool(query.older) or (not query.newer and query.start == "newest")
    request = ReadRequest(
        name,
        _offsets(client, name, query, ranges),
        "backward" if backward else "forward",
        isolation,
        None if search.is_empty else search,
        ReadLimits(query.count),
    )
    return read_page(client, request, ranges)


def _offsets(client: Client, name: str, query: MessageQuery, ranges: Mapping[int, OffsetRange]) -> Mapping[int, int]:
    if query.older or query.newer:
        return query.offsets()
    if query.start == "offset":
        return dict.fromkeys(ranges, parse_offset(query.offset))
    if query.start == "time":
        return offsets_at(client, name, ranges, parse_time(query.time))
    return {partition: end if query.start == "newest" else start for partition, (start, end) in ranges.items()}


def _older(query: MessageQuery, scan: MessagePage | None) -> str:
    if scan is None or not scan.has_older:
        return ""
    return query.link(older=position_text(scan.lower), newer="", follow=False)


def _newer(query: MessageQuery, scan: MessagePage | None) -> str:
    if scan is None or not scan.has_newer:
        return ""
    return query.link(newer=position_text(scan.upper), older="", follow=False)


def _rows(scan: MessagePage, query: MessageQuery, reader: ValueReader) -> list[Row]:
    share = 1 if len(scan.messages) <= ROWS_FULL else 3
    return [
        Row(
            one,
            reader.view(one.key, query.key_form, characters_max=KEY_CHARACTERS // share, is_key=True, one_line=True),
            reader.view(one.value, query.form, characters_max=VALUE_CHARACTERS // share, one_line=True),
            ", ".join(name for name, _ in one.headers)[: HEADER_CHARACTERS // share],
        )
        for one in scan.messages
    ]


def _headers(message: Message, reader: ValueReader) -> list[tuple[str, ValueView]]:
    return [
        (name[:HEADER_PAGE_CHARACTERS], reader.view(value, characters_max=HEADER_PAGE_CHARACTERS, one_line=True))
        for name, value in message.headers[:HEADERS_SHOWN]
    ]


def _place(request: Request) -> tuple[str, int, int]:
    parameters = request.path_params
    return parameters["name"], parameters["partition"], parameters["offset"]


def _message(client: Client, name: str, partition: int, offset: int) -> Message | Fault:
    if partition not in partitions_of(client, name):
        raise UnknownResource(f"The topic {name!r} has no partition {partition}.")
    start, end = offset_ranges(client, name, [partition])[partition]
    if not start <= offset < end:
        held = f"it has the offsets {start} to {end - 1}" if end > start else "it is empty"
        raise UnknownResource(f"Partition {partition} of {name!r} has no offset {offset}: {held}.")
    shown = read_message(client, name, partition, offset)
    if shown is None:
        raise UnknownResource(
            f"There is no message at offset {offset} of partition {partition}: it was compacted away, or the offset "
            "belongs to the marker of a transaction."
        )
    return shown


ROUTES = [
    Route("/messages", choose_topic),
    Route("/topics/{name}/messages", messages),
    Route("/topics/{name}/messages/{partition:int}/{offset:int}", message),
    Route("/topics/{name}/messages/{partition:int}/{offset:int}/{part}", download),
]
