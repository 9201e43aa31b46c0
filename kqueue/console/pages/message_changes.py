"""Forms that change a topic's messages: produce one, copy to another topic, delete the oldest."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kqueue.base.errors import KqueueError
from kqueue.base.text import counted
from kqueue.console.messages.deletion import PartitionDeletion, delete_before, preview_deletion
from kqueue.console.messages.positions import parse_position, position_text
from kqueue.console.messages.producer import TopicProducer
from kqueue.console.messages.query import parse_offset
from kqueue.console.messages.record_form import INPUT_FORMS, record_of
from kqueue.console.messages.topic_copy import COUNT_MAX, PARTITION_CHOICES, CopyRequest, copy_messages
from kqueue.console.page import Page, form_error
from kqueue.console.pages.messages import partitions_of, topic_crumbs
from kqueue.console.problems import Problem

PRODUCE_FIELDS = ("key", "key_form", "value", "value_form", "headers", "partition", "timestamp")
COPY_COUNT = 100


def produce_form(request: Request) -> Response:
    """Show the form of a new message."""
    page = Page(request)
    name = request.path_params["name"]
    with page.client() as client:
        partitions = partitions_of(client, name)
    return _produce_page(page, name, partitions, {}, None)


def produce(request: Request) -> Response:
    """Append the message of the form."""
    page = Page(request)
    name = request.path_params["name"]
    # spaces around a key or value are part of it, so these fields are not stripped
    fields = {field: value for field in PRODUCE_FIELDS if isinstance(value := page.form.get(field, ""), str)}
    with page.client() as client:
        partitions = partitions_of(client, name)
        try:
            record = record_of(fields)
            with page.change("produce message", name):
                producer = TopicProducer(client, name, partitions)
                producer.add(record)
                [(partition, offset)] = producer.flush()
        except (ValueError, KqueueError) as error:
            return _produce_page(page, name, partitions, fields, _problem(error))
    page.flash(f"Produced a message to partition {partition} at offset {offset}.")
    return page.redirect(f"/topics/{quote(name, safe='')}/messages/{partition}/{offset}")


def copy_form(request: Request) -> Response:
    """Show what is to be copied, and ask where to."""
    page = Page(request)
    name = request.path_params["name"]
    fields = {field: page.query.get(field, "") for field in ("partition", "offset")}
    with page.client() as client:
        partitions = partitions_of(client, name)
    return _copy_page(page, name, partitions, {**fields, "count": str(COPY_COUNT)}, None)


def copy(request: Request) -> Response:
    """Copy messages to another topic."""
    page = Page(request)
    name = request.path_params["name"]
    names = ("partition", "offset", "count", "target", "keep")
    fields = {field: page.field(field, characters_max=300) for field in names}
    with page.client() as client:
        partitions = partitions_of(client, name)
        try:
            wanted = CopyRequest(
                name,
                _partition(fields["partition"], partitions),
                parse_offset(fields["offset"]),
                int(fields["count"]) if fields["count"].isdecimal() and len(fields["count"]) < 10 else 0,
                fields["target"],
                fields["keep"] == "same",
            )
            with page.change("copy messages", name, _shown(fields)):
                result = copy_messages(client, wanted)
        except (ValueError, KqueueError) as error:
            return _copy_page(page, name, partitions, fields, _problem(error))
    page.flash(f"Copied {counted(result.copied, 'message')} to {wanted.target}.")
    if result.left_out:
        page.flash(f"Not all were copied: {result.left_out}. Go on from offset {result.next_offset}.", "warning")
    return page.redirect(f"/topics/{quote(wanted.target, safe='')}/messages")


def delete_form(request: Request) -> Response:
    """Show how many messages a deletion would delete, and ask for it."""
    page = Page(request)
    name = request.path_params["name"]
    fields = {field: page.query.get(field, "").strip() for field in ("partition", "offset")}
    preview: list[PartitionDeletion] = []
    problem = None
    with page.client() as client:
        partitions = partitions_of(client, name)
        if fields["offset"]:
            try:
                before = {_partition(fields["partition"], partitions): parse_offset(fields["offset"])}
                preview = preview_deletion(client, name, before)
            except ValueError as error:
                problem = form_error(error)
    return _delete_page(page, name, partitions, fields, preview, problem)


def delete(request: Request) -> Response:
    """Delete the messages before the offset that was shown."""
    page = Page(request)
    name = request.path_params["name"]
    before = parse_position(page.field("before"))
    if not before:
        raise ValueError("before: expected the offset to delete up to")
    with page.client() as client:
        partitions = partitions_of(client, name)
        for partition in before:
            _partition(str(partition), partitions)
        try:
            with page.change("delete messages", name, {"before": position_text(before)}):
                starts = delete_before(client, name, before)
        except KqueueError as error:
            return _delete_page(page, name, partitions, {"partition": "", "offset": ""}, [], _problem(error))
    shown = ", ".join(f"partition {partition} begins at offset {start}" for partition, start in sorted(starts.items()))
    page.flash(f"Deleted the messages before: {shown}.")
    address = urlencode({"start": "oldest", "partition": next(iter(before))})
    return page.redirect(f"/topics/{quote(name, safe='')}/messages?{address}")


def _produce_page(
    page: Page, name: str, partitions: list[int], fields: dict[str, str], problem: Problem | None
) -> Response:
    return page.render(
        "message_produce.html",
        title=f"Produce to {name}",
        crumbs=topic_crumbs(name),
        status=200 if problem is None else problem.status,
        name=name,
        fields={**dict.fromkeys(PRODUCE_FIELDS, ""), **fields},
        problem=problem,
        forms=tuple(INPUT_FORMS.items()),
        partitions=_choices(partitions, "by the key"),
    )


def _copy_page(
    page: Page, name: str, partitions: list[int], fields: dict[str, str], problem: Problem | None
) -> Response:
    return page.render(
        "message_copy.html",
        title=f"Copy messages of {name}",
        crumbs=topic_crumbs(name),
        status=200 if problem is None else problem.status,
        name=name,
        fields={**dict.fromkeys(("partition", "offset", "count", "target", "keep"), ""), **fields},
        problem=problem,
        count_max=COUNT_MAX,
        choices=tuple(PARTITION_CHOICES.items()),
        partitions=_choices(partitions),
    )


def _delete_page(
    page: Page,
    name: str,
    partitions: list[int],
    fields: dict[str, str],
    preview: list[PartitionDeletion],
    problem: Problem | None,
) -> Response:
    return page.render(
        "message_delete.html",
        title=f"Delete messages of {name}",
        crumbs=topic_crumbs(name),
        status=200 if problem is None else problem.status,
        name=name,
        fields=fields,
        preview=preview,
        before=position_text({one.partition: one.before for one in preview}),
        problem=problem,
        partitions=_choices(partitions),
    )


def _choices(partitions: list[int], default: str | None = None) -> list[tuple[str, str]]:
    chosen = [] if default is None else [("", default)]
    return [*chosen, *((str(one), str(one)) for one in partitions[:1_000])]


def _partition(text: str, partitions: list[int]) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 10 or int(text) not in partitions:
        raise ValueError(f"partition: expected one from 0 to {len(partitions) - 1}")
    return int(text)


def _shown(fields: dict[str, str]) -> dict[str, str]:
    return {name: fields[name] for name in ("partition", "offset", "count", "target")}


def _problem(error: Exception) -> Problem:
    """Return what the form says: of an error of the records too, which is no error of a client."""
    if isinstance(error, ValueError) or type(error).__module__.startswith("kqueue.client"):
        return form_error(error)
    return Problem(400, "Not valid", str(error))


ROUTES = [
    Route("/topics/{name}/produce", produce_form, methods=["GET"]),
    Route("/topics/{name}/produce", produce, methods=["POST"]),
    Route("/topics/{name}/copy-messages", copy_form, methods=["GET"]),
    Route("/topics/{name}/copy-messages", copy, methods=["POST"]),
    Route("/topics/{name}/delete-messages", delete_form, methods=["GET"]),
    Route("/topics/{name}/delete-messages", delete, methods=["POST"]),
]
