"""Groups: the list that says which are behind and since when, one group, and deleting it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kqueue.base.clock import wall_ms
from kqueue.client import Client, GroupListing
from kqueue.console.groups.group_rows import (
    SORTS,
    GroupRow,
    group_rows,
    lag_sparks,
    member_counts,
    since_text,
    sorted_rows,
    state_kind,
    trend_text,
)
from kqueue.console.groups.group_view import group_charts, group_view, partition_histories
from kqueue.console.listing import listing
from kqueue.console.page import Crumb, Page
from kqueue.console.problems import UnknownResource
from kqueue.console.templating import path_segment
from kqueue.console.time_ranges import chosen_range, time_ranges

TYPES = ("classic", "consumer", "share", "streams")
FIRST_SAMPLE_S = 3.0
NAMED_MAX = 5
"""Groups that are behind and are named above the list."""
GROUPS = (Crumb("Groups", "/groups"),)


def groups(request: Request) -> Response:
    """Show all groups with their lag, those that are behind first."""
    page = Page(request)
    if page.console.sampler is not None:
        page.console.sampler.wait_for_first(FIRST_SAMPLE_S)
    query = page.query
    sort = query.get("sort", "behind")
    sort = sort if sort in SORTS else "behind"
    descending = query.get("order") == "desc"
    history = page.history
    now_ms = wall_ms()
    with page.client() as client:
        rows = group_rows(client, client.groups().values(), history)
        kept = [row for row in rows if _matches(row, query)]
        ordered = sorted_rows(kept, sort, descending=descending)
        shown = listing(ordered, query, lambda row: row.name, keep=("sort", "order", "type", "state", "behind"))
        members = member_counts(client, shown.rows)
    behind = sorted_rows([row for row in rows if row.since is not None], "behind", descending=False)
    return page.render(
        "groups.html",
        title="Groups",
        listing=shown,
        members=members,
        types=TYPES,
        states=sorted({row.state for row in rows if row.state}),
        columns=[(name, title, _sort_link(query, name), _order(name, sort, descending)) for name, title in COLUMNS],
        total=len(rows),
        behind=behind[:NAMED_MAX],
        behind_count=len(behind),
        has_lag=any(row.lag for row in rows),
        since={row.name: since_text(row.since, now_ms) for row in [*shown.rows, *behind[:NAMED_MAX]]},
        trends={row.name: trend_text(row) for row in shown.rows},
        sparks=lag_sparks(shown.rows, history),
        history=history,
        latest=history.latest if history is not None else None,
        query=query,
    )


COLUMNS = (("name", "Group"), ("type", "Type"), ("state", "State"), ("lag", "Lag"), ("since", "Behind since"))


def _matches(row: GroupRow, query: Mapping[str, str]) -> bool:
    return (
        query.get("type", "") in ("", row.type)
        and query.get("state", "") in ("", row.state)
        and (not query.get("behind") or row.since is not None)
    )


def _order(name: str, sort: str, descending: bool) -> str:
    """Return the value of `aria-sort`; "": the list is not sorted by this column."""
    return ("descending" if descending else "ascending") if name == sort else ""


def _sort_link(query: Mapping[str, str], name: str) -> str:
    """Return the address of the list in another order; lags begin with the largest."""
    parameters = {key: query[key][:250] for key in ("q", "type", "state", "behind") if query.get(key)}
    is_sorted = query.get("sort") == name
    descends = query.get("order") != "desc" if is_sorted else name == "lag"
    return "?" + urlencode({**parameters, "sort": name, **({"order": "desc"} if descends else {})})


def group(request: Request) -> Response:
    """Show one group: its members, and where it is in each partition."""
    page = Page(request)
    name = request.path_params["name"]
    chosen = chosen_range(page.query)
    history = page.history
    now_ms = wall_ms()
    cluster = page.cluster()
    with page.client() as client:
        view = group_view(client, existing_group(client, name), cluster)
    shown = listing(view.partitions, page.query, lambda row: row.name, keep=("range",))
    return page.render(
        "group.html",
        title=name,
        crumbs=GROUPS,
        group=view,
        kind=state_kind(view.description.state),
        listing=shown,
        histories=partition_histories(history, name, shown.rows, now_ms),
        since=since_text(history.behind_since(name), now_ms) if history is not None else None,
        pictures=group_charts(history, view, chosen) if history is not None else [],
        ranges=time_ranges(history, chosen) if history is not None else [],
        history=history,
    )


def delete_form(request: Request) -> Response:
    """Ask whether to delete a group, with what is lost."""
    page = Page(request)
    name = request.path_params["name"]
    cluster = page.cluster()
    with page.client() as client:
        view = group_view(client, existing_group(client, name), cluster)
    crumbs = (*GROUPS, group_crumb(name))
    return page.render("group_delete.html", title="Delete group", crumbs=crumbs, name=name, group=view)


def delete(request: Request) -> Response:
    """Delete a group."""
    page = Page(request)
    name = request.path_params["name"]
    with page.client() as client, page.change("delete group", name):
        client.delete_group(name)
    wake_history(page)
    page.flash(f"Deleted the group {name}.")
    return page.redirect("/groups")


def existing_group(client: Client, name: str) -> GroupListing:
    """Return the listing of a group. Raises: UnknownResource: there is none. ClientError."""
    group = client.groups().get(name)
    if group is None:
        raise UnknownResource(f"There is no group {name!r}.")
    return group


def group_crumb(name: str) -> Crumb:
    """Return the crumb that leads to a group."""
    return Crumb(name, f"/groups/{path_segment(name)}")


def wake_history(page: Page) -> None:
    """Have the history read the cluster now, so that the next page shows what has changed."""
    if page.console.sampler is not None:
        page.console.sampler.wake()


ROUTES: Sequence[Route] = [
    Route("/groups", groups),
    Route("/groups/{name:path}/delete", delete_form, methods=["GET"]),
    Route("/groups/{name:path}/delete", delete, methods=["POST"]),
    Route("/groups/{name:path}", group),
]
