"""Rows of the list of groups: what a session's client lists, joined with the history."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kqueue.admin.group_lags import group_lags
from kqueue.admin.group_members import describe_group
from kqueue.admin.rates import GroupTrend
from kqueue.base.clock import monotonic_s
from kqueue.client import Client, GroupListing
from kqueue.client.errors import ClientError
from kqueue.console.charts.line_chart import sparkline
from kqueue.console.charts.units import Unit, ago_text, date_text, duration_text, time_text, value_text
from kqueue.console.history.behind import Since
from kqueue.console.history.cluster_history import ClusterHistory

LIVE_LAGS_MAX = 100
"""Groups whose lags are read for a page, where there is no history; of further ones none."""
MEMBERS_S = 2.0
"""How long the members of a page's groups are read for."""
DAY_MS = 86_400_000
GROWTH_MIN = 0.5
"""Records per second below which a lag counts as steady."""
STATE_KINDS = {"Stable": "good", "Empty": "plain", "Dead": "bad"}
"""Of badges, by the state of a group; other states are those of a change under way."""
SORTS = ("behind", "name", "type", "state", "lag", "since")


@dataclass(frozen=True, slots=True)
class SinceText:
    """Since when a group is behind, as text. `ago`: how long; `time`: of day, with its zone."""

    ago: str
    time: str


@dataclass(frozen=True, slots=True)
class TrendText:
    """How a lag changes, as text. `kind`: of its badge."""

    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group in the list.

    Attributes:
        lag: records to read; None: unknown, or it has committed nothing.
        since: since when it is behind; None: it is not, or there is no history.
        trend: None: there is no history of it.
    """

    name: str
    type: str
    state: str
    lag: int | None
    since: Since | None = None
    trend: GroupTrend | None = None

    @property
    def state_kind(self) -> str:
        """The kind of the state's badge."""
        return state_kind(self.state)


def state_kind(state: str) -> str:
    """Return the kind of a badge for a group's state."""
    return STATE_KINDS.get(state, "warn") if state else "plain"


def group_rows(client: Client, listings: Collection[GroupListing], history: ClusterHistory | None) -> list[GroupRow]:
    """Return a row of each group; without a sample in the history the lags are read now."""
    states = history.latest.groups if history is not None and history.latest.time_ms is not None else None
    if states is None:
        lags = group_lags(client, sorted(listings)[:LIVE_LAGS_MAX])
        return [GroupRow(each.name, each.type, each.state, lags.get(each.name)) for each in listings]
    rows = []
    for each in listings:
        state = states.get(each.name)
        if state is None:
            rows.append(GroupRow(each.name, each.type, each.state, None))
        else:
            rows.append(GroupRow(each.name, each.type, each.state, state.trend.lag, state.since, state.trend))
    return rows


def sorted_rows(rows: Iterable[GroupRow], sort: str, *, descending: bool) -> list[GroupRow]:
    """Return the rows in an order of `SORTS`; "behind": those that are behind first, then by lag.

    Rows without a value are the last in either direction.
    """
    by_name = sorted(rows, key=lambda row: row.name)
    if sort in ("name", "type", "state"):
        return sorted(by_name, key=lambda row: str(getattr(row, sort)), reverse=descending)
    if sort == "lag":
        return _with_unknown_last(by_name, {row.name: row.lag for row in by_name}, descending)
    if sort == "since":
        times = {row.name: row.since.time_ms if row.since is not None else None for row in by_name}
        return _with_unknown_last(by_name, times, descending)
    return sorted(by_name, key=lambda row: (row.since is None, -(row.lag or 0)))


def _with_unknown_last(rows: Sequence[GroupRow], values: Mapping[str, int | None], descending: bool) -> list[GroupRow]:
    sign = -1 if descending else 1
    return sorted(rows, key=lambda row: (values[row.name] is None, sign * (values[row.name] or 0)))


def member_counts(client: Client, rows: Iterable[GroupRow], *, limit_s: float = MEMBERS_S) -> dict[str, int | None]:
    """Return the number of members of each group; None: not read, or not in time."""
    counts: dict[str, int | None] = {}
    end_s = monotonic_s() + limit_s
    for row in rows:
        counts[row.name] = None
        if row.state == "Empty":
            counts[row.name] = 0
        elif monotonic_s() < end_s:
            try:
                counts[row.name] = len(describe_group(client, row.name, row.type, timeout_ms=1_000).members)
            except ClientError:
                continue  # gone meanwhile, or not allowed; the list is still of use
    return counts


def since_text(since: Since | None, now_ms: int) -> SinceText | None:
    """Return since when a group is behind as text; None: it is not."""
    if since is None:
        return None
    at_least = "at least " if since.is_at_least else ""
    elapsed_ms = now_ms - since.time_ms
    day = "" if elapsed_ms < DAY_MS else f"{date_text(since.time_ms)} "
    return SinceText(f"{at_least}{ago_text(elapsed_ms)}", f"{day}{time_text(since.time_ms, seconds=True)} UTC")


def trend_text(row: GroupRow) -> TrendText | None:
    """Return how a group's lag changes as text; None: unknown.

    A group that is not behind has the lag of what is on its way, whose changes say nothing.
    """
    trend = row.trend
    if trend is None or trend.lag is None or trend.growth_per_s is None:
        return None
    if row.since is None:
        return TrendText("keeps up", "plain")
    if trend.growth_per_s > GROWTH_MIN:
        return TrendText(f"grows by {value_text(trend.growth_per_s, Unit.RECORDS_PER_S)}/s", "bad")
    if trend.growth_per_s < -GROWTH_MIN and trend.lag:
        caught_up = f", done in {_short_duration(trend.caught_up_s)}" if trend.caught_up_s is not None else ""
        return TrendText(f"shrinks by {value_text(-trend.growth_per_s, Unit.RECORDS_PER_S)}/s{caught_up}", "good")
    return TrendText("steady", "plain")


def lag_sparks(rows: Iterable[GroupRow], history: ClusterHistory | None) -> dict[str, Markup]:
    """Return the picture of each group's lag in the last 20 minutes, at samples of 10 seconds."""
    if history is None:
        return {}
    return {row.name: sparkline(history.group_lags(row.name), f"lag of {row.name}") for row in rows}


def _short_duration(seconds: float) -> str:
    return ago_text(seconds * 1000) if seconds >= 1 else duration_text(seconds)
