"""Reset of a group's offsets: a form, a preview of what changes, and its execution."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kqueue.admin.offset_reset import (
    PlannedOffset,
    ResetKind,
    ResetRefused,
    ResetTarget,
    check_no_members,
    execute_reset,
    plan_reset,
    positions,
)
from kqueue.client import Client, ClusterMetadata, GroupListing, TopicPartition
from kqueue.client.errors import ClientError
from kqueue.console.groups.group_view import group_view
from kqueue.console.groups.reset_form import KINDS, PLAN_CHARACTERS_MAX, PlanSums, ResetFields, plan_text, read_plan
from kqueue.console.page import Page, form_error
from kqueue.console.pages.groups import GROUPS, existing_group, group_crumb, wake_history
from kqueue.console.problems import Problem
from kqueue.console.templating import path_segment

CONFLICT = 409
SHOWN_MAX = 500
"""Partitions of a preview that are listed; all of them are applied."""


def reset(request: Request) -> Response:
    """Show the form of a reset, and its preview once the form is filled in; nothing changes."""
    page = Page(request)
    name = request.path_params["name"]
    fields = ResetFields.read(page.query)
    plan: list[PlannedOffset] = []
    problem: Problem | None = None
    cluster = page.cluster()
    with page.client() as client:
        listing = existing_group(client, name)
        topics = sorted({*group_view(client, listing, cluster).topics, *_other_topics(cluster)})
        try:
            check_no_members(client, name, listing)
            if "kind" in page.query:
                plan = _plan(client, listing, fields, cluster)
        except ResetRefused as error:
            problem = _refused(error)
        except (ClientError, ValueError) as error:
            problem = form_error(error)
    return page.render(
        "group_reset.html",
        title="Reset offsets",
        crumbs=(*GROUPS, group_crumb(name)),
        status=200 if problem is None else problem.status,
        name=name,
        is_share=listing.type == "share",
        fields=fields,
        kinds=[(kind.value, text) for kind, text in KINDS],
        topics=[("", "all that the group has"), *((topic, topic) for topic in topics)],
        problem=problem,
        plan=plan[:SHOWN_MAX],
        plan_size=len(plan),
        plan_text=plan_text(plan),
        sums=PlanSums.of(plan) if plan else None,
    )


def apply(request: Request) -> Response:
    """Commit the offsets that the preview showed."""
    page = Page(request)
    name = request.path_params["name"]
    offsets = read_plan(page.field("plan", characters_max=PLAN_CHARACTERS_MAX))
    details = {"partitions": str(len(offsets)), "offsets": ", ".join(f"{one}={new}" for one, new in offsets.items())}
    with page.client() as client:
        listing = existing_group(client, name)
        try:
            with page.change("reset offsets", name, details):
                check_no_members(client, name, listing)
                refused = execute_reset(client, name, listing.type, _clamped(client, offsets))
                if refused:
                    raise ResetRefused("; ".join(f"{one}: {reason}" for one, reason in sorted(refused.items())))
        except ResetRefused as error:
            return page.problem(_refused(error))
    wake_history(page)
    page.flash(f"Reset {len(offsets):,} offsets of {name}.")
    return page.redirect(f"/groups/{path_segment(name)}")


def _plan(client: Client, listing: GroupListing, fields: ResetFields, cluster: ClusterMetadata) -> list[PlannedOffset]:
    current = positions(client, listing.name, listing.type)
    target = fields.target()
    partitions = fields.selected(current, cluster)
    plan = plan_reset(client, partitions, current, target)
    if not plan:
        raise ValueError("None of the partitions exists any more.")
    return plan


def _clamped(client: Client, offsets: dict[TopicPartition, int]) -> list[PlannedOffset]:
    """Return the plan that moves each partition to its own offset, within its log of now."""
    starts = {one.partition: one for one in plan_reset(client, offsets, {}, ResetTarget(ResetKind.EARLIEST))}
    missing = [str(one) for one in offsets if one not in starts]
    if missing:
        raise ResetRefused(f"{missing[0]} does not exist any more; make the preview again")
    return [planned._replace(new=min(max(offsets[one], planned.start), planned.end)) for one, planned in starts.items()]


def _other_topics(cluster: ClusterMetadata) -> list[str]:
    return [name for name, topic in cluster.topics.items() if not topic.is_internal]


def _refused(error: ResetRefused) -> Problem:
    text = str(error)
    return Problem(CONFLICT, "Not possible now", f"{text[:1].upper()}{text[1:]}.")


ROUTES: Sequence[Route] = [
    Route("/groups/{name:path}/reset", reset, methods=["GET"]),
    Route("/groups/{name:path}/reset", apply, methods=["POST"]),
]
