from __future__ import annotations

from typing import Any

import pytest

from kqueue.admin.rates import GroupTrend
from kqueue.client.errors import ClientError
from kqueue.console.groups import group_rows
from kqueue.console.groups.group_rows import (
    GroupRow,
    SinceText,
    TrendText,
    lag_sparks,
    member_counts,
    since_text,
    sorted_rows,
    state_kind,
    trend_text,
)
from kqueue.console.history.behind import Since
from kqueue.console.history.cluster_history import ClusterHistory

HOUR_MS = 3_600_000


def row(name: str, lag: int | None = None, since_ms: int | None = None, trend: GroupTrend | None = None) -> GroupRow:
    return GroupRow(name, "classic", "Empty", lag, None if since_ms is None else Since(since_ms), trend)


def names(rows: list[GroupRow], sort: str, *, descending: bool = False) -> str:
    return "".join(each.name for each in sorted_rows(rows, sort, descending=descending))


def test_groups_that_are_behind_are_first_and_then_the_largest_lags() -> None:
    rows = [row("a", 90), row("b", 5, since_ms=1), row("c", 50, since_ms=2), row("d")]
    assert names(rows, "behind") == "cbad"


def test_rows_without_a_value_are_last_in_either_direction() -> None:
    rows = [row("a"), row("b", 5, since_ms=20), row("c", 50, since_ms=10)]
    assert [names(rows, "lag"), names(rows, "lag", descending=True)] == ["bca", "cba"]
    assert [names(rows, "since"), names(rows, "since", descending=True)] == ["cba", "bca"]


def test_how_long_a_group_is_behind_is_text() -> None:
    assert since_text(None, HOUR_MS) is None
    assert since_text(Since(HOUR_MS), HOUR_MS + 90_000) == SinceText("1 min", "01:00:00 UTC")
    assert since_text(Since(HOUR_MS, is_at_least=True), 3 * HOUR_MS) == SinceText("at least 2 h", "01:00:00 UTC")
    text = since_text(Since(HOUR_MS), 100 * HOUR_MS)
    assert text == SinceText("4 days", "1970-01-01 01:00:00 UTC")


@pytest.mark.parametrize(
    ("growth", "caught_up_s", "since_ms", "expected"),
    [
        (12.0, None, 1, TrendText("grows by 12/s", "bad")),
        (-10.0, 90.0, 1, TrendText("shrinks by 10/s, done in 1 min", "good")),
        (-10.0, 0.2, 1, TrendText("shrinks by 10/s, done in 200 ms", "good")),
        (0.1, None, 1, TrendText("steady", "plain")),
        (12.0, None, None, TrendText("keeps up", "plain")),
    ],
)
def test_how_the_lag_changes_is_text(
    growth: float, caught_up_s: float | None, since_ms: int | None, expected: TrendText
) -> None:
    trend = GroupTrend(100, 0.0, growth, caught_up_s)
    assert trend_text(row("a", 100, since_ms, trend)) == expected


def test_a_trend_that_is_unknown_has_no_text() -> None:
    assert trend_text(row("a")) is None
    assert trend_text(row("a", trend=GroupTrend(None, None, None, None))) is None


def test_states_have_kinds() -> None:
    assert [state_kind(each) for each in ("Stable", "Empty", "Dead", "PreparingRebalance", "")] == [
        *("good", "plain", "bad", "warn", "plain")
    ]


def test_members_that_can_not_be_read_or_not_in_time_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **keywords: Any) -> None:
        raise ClientError("not allowed")

    monkeypatch.setattr(group_rows, "describe_group", fail)
    client: Any = None
    stable = GroupRow("s", "classic", "Stable", None)
    assert member_counts(client, [row("e"), stable]) == {"e": 0, "s": None}
    monkeypatch.setattr(group_rows, "describe_group", lambda *arguments, **keywords: pytest.fail("too late"))
    assert member_counts(client, [stable], limit_s=0) == {"s": None}


def test_there_are_no_pictures_without_a_history() -> None:
    assert lag_sparks([row("a")], None) == {}
    assert "<path" not in lag_sparks([row("a")], ClusterHistory(10_000))["a"]
