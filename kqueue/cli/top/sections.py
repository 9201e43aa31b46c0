"""The sections of the screen: their columns, and the rows of a picture, sorted and filtered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kqueue.admin.log_dirs import TopicSize
from kqueue.admin.rates import GroupTrend, TopicRate
from kqueue.admin.request_times import ApiTimes
from kqueue.admin.snapshot import UP, BrokerState
from kqueue.base.terminal import one_line
from kqueue.base.text import size_text
from kqueue.cli.error_texts import explain_code
from kqueue.cli.top.figures import (
    UNKNOWN,
    count_text,
    duration_text,
    number_text,
    short_time_text,
    sparkline,
)
from kqueue.cli.top.picture import NO_RATE, NO_TREND, Picture
from kqueue.client import GroupListing, LogDir

NAME_CHARACTERS = 250
NAME_WIDTH_MAX = 60
SPARK_WIDTH, SPARK_WIDTH_MAX = 16, 60
BAD, WARN, GOOD, FAINT = "bold red", "yellow", "green", "dim"
STEADY_PER_S = 0.05
NO_METRICS = (
    "Kafka's protocol does not tell how long requests take; a broker of kqueue does.",
    "Start it with --set kqueue.metrics.listener=127.0.0.1:9404, and this with --metrics http://127.0.0.1:9404.",
)


class Cell(NamedTuple):
    """The text of a cell, without control characters, and its style for rich."""

    text: str
    style: str = ""


class TopicRow(NamedTuple):
    """A topic. `size`: None: no broker tells."""

    name: str
    is_internal: bool
    partitions: int
    rate: TopicRate
    size: TopicSize | None
    picture: Picture


class GroupRow(NamedTuple):
    """A group."""

    listing: GroupListing
    trend: GroupTrend
    picture: Picture


class DiskRow(NamedTuple):
    """A data folder of a broker."""

    broker: int
    folder: LogDir
    size: int


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a section.

    Attributes:
        width: in cells, the least.
        width_max: what it grows to where the screen is wide; 0: it does not.
        value: what rows are sorted by; None: unknown, always last.
        cell: what is shown.
        rank: columns of a higher rank are left out first where the screen is narrow.
        is_text: aligned to the left, and first sorted from A to Z; others from the greatest on.
        is_series: its cell has the latest values at its end, and is cut at its beginning.
    """

    title: str
    width: int
    value: Callable[[Any], Any]
    cell: Callable[[Any], Cell]
    rank: int = 0
    is_text: bool = False
    width_max: int = 0
    is_series: bool = False


def _name_column(title: str, value: Callable[[Any], str | None]) -> Column:
    """Return the column of names of the cluster, which grows where there is space."""
    return Column(title, 16, value, lambda row: shown(value(row)), is_text=True, width_max=NAME_WIDTH_MAX)


def _series_column(title: str, value: Callable[[Any], Any], cell: Callable[[Any], Cell]) -> Column:
    return Column(title, SPARK_WIDTH, value, cell, rank=9, width_max=SPARK_WIDTH_MAX, is_series=True)


@dataclass(frozen=True, slots=True)
class ScreenSection:
    """A part of the screen.

    Attributes:
        name: of a row: what the filter searches, and what rows of the same value are sorted by.
        sorted_by: index of the column that rows are sorted by at first.
        empty: the lines that are shown where there is no row.
    """

    title: str
    columns: Sequence[Column]
    rows: Callable[[Picture], list[Any]]
    name: Callable[[Any], str]
    sorted_by: int
    empty: Callable[[Picture], Sequence[str]]

    def select(self, rows: Sequence[Any], column: int, *, descending: bool, text: str = "") -> list[Any]:
        """Return the rows whose name has `text`, in any case, sorted by a column."""
        wanted = text.casefold()
        named = [row for row in rows if wanted in self.name(row).casefold()] if wanted else list(rows)
        named.sort(key=self.name)
        value = self.columns[column].value
        known = sorted((row for row in named if value(row) is not None), key=value, reverse=descending)
        return known + [row for row in named if value(row) is None]


def shown(text: str | None) -> Cell:
    """Return a name of the cluster: shortened, and on one line without control characters."""
    if not text:
        return Cell(UNKNOWN, FAINT)
    return Cell(one_line(text[:NAME_CHARACTERS]))


def _number(value: float | None) -> Cell:
    if value is None:
        return Cell(UNKNOWN, FAINT)
    return Cell(number_text(value), "" if value >= STEADY_PER_S else FAINT)


def _count(value: int | None, style: str = "") -> Cell:
    return Cell(UNKNOWN, FAINT) if value is None else Cell(count_text(value), style if value else FAINT)


def _size(value: float | None, suffix: str = "") -> Cell:
    return Cell(UNKNOWN, FAINT) if value is None else Cell(size_text(value) + suffix, "" if value else FAINT)


def _time(value: float | None, warn_s: float, bad_s: float) -> Cell:
    if value is None:
        return Cell(UNKNOWN, FAINT)
    return Cell(short_time_text(value), BAD if value >= bad_s else WARN if value >= warn_s else "")


# --- brokers


def _address(row: BrokerState) -> str | None:
    return None if row.host is None else f"{row.host}:{row.port}"


BROKERS = ScreenSection(
    "Brokers",
    (
        Column("ID", 6, lambda row: row.id, lambda row: Cell(str(row.id)), is_text=True),
        _name_column("ADDRESS", _address),
        Column("RACK", 10, lambda row: row.rack, lambda row: shown(row.rack), rank=4, is_text=True),
        Column(
            "STATE",
            10,
            lambda row: row.state,
            lambda row: Cell(row.state, GOOD if row.state == UP else BAD),
            is_text=True,
        ),
        Column(
            "CONTROLLER",
            10,
            lambda row: not row.is_controller,
            lambda row: Cell("yes" if row.is_controller else ""),
            rank=3,
            is_text=True,
        ),
        Column("LEADS", 9, lambda row: row.load.leads, lambda row: _count(row.load.leads), rank=1),
        Column("PREFERRED", 9, lambda row: row.load.preferred, lambda row: _count(row.load.preferred), rank=5),
        Column("REPLICAS", 9, lambda row: row.load.replicas, lambda row: _count(row.load.replicas), rank=2),
        Column("OUT OF SYNC", 11, lambda row: row.load.out_of_sync, lambda row: _count(row.load.out_of_sync, BAD)),
    ),
    lambda picture: [] if picture.snapshot is None else list(picture.snapshot.brokers),
    lambda row: f"{row.id} {_address(row) or ''} {row.rack or ''} {row.state}",
    0,
    lambda picture: ["no broker"],
)


# --- topics


def _topic_rows(picture: Picture) -> list[TopicRow]:
    snapshot = picture.snapshot
    if snapshot is None:
        return []
    return [
        TopicRow(
            name,
            topic.is_internal,
            len(topic.partitions),
            picture.topics.get(name, NO_RATE),
            snapshot.sizes.get(name),
            picture,
        )
        for name, topic in snapshot.metadata.topics.items()
    ]


def _spark(series: Sequence[float | None], style: str) -> Cell:
    return Cell(sparkline(series, SPARK_WIDTH_MAX), style if any(series) else FAINT)


def _topic_spark(row: TopicRow) -> Cell:
    return _spark(row.picture.topic_series(row.name), "cyan")


def _leaders_size(row: TopicRow) -> int | None:
    return None if row.size is None else row.size.leaders


def _replicas_size(row: TopicRow) -> int | None:
    return None if row.size is None else row.size.replicas


TOPICS = ScreenSection(
    "Topics",
    (
        _name_column("TOPIC", lambda row: row.name),
        Column("PARTITIONS", 10, lambda row: row.partitions, lambda row: _count(row.partitions), rank=3),
        Column("RECORDS/S", 10, lambda row: row.rate.records_per_s, lambda row: _number(row.rate.records_per_s)),
        _series_column("RECENT", lambda row: row.rate.records_per_s, _topic_spark),
        Column("BYTES/S", 11, lambda row: row.rate.bytes_per_s, lambda row: _size(row.rate.bytes_per_s, "/s"), rank=1),
        Column("SIZE", 10, _leaders_size, lambda row: _size(_leaders_size(row)), rank=2),
        Column("REPLICAS", 10, _replicas_size, lambda row: _size(_replicas_size(row)), rank=4),
    ),
    _topic_rows,
    lambda row: row.name,
    2,
    lambda picture: ["no topic"],
)


# --- groups


def _group_rows(picture: Picture) -> list[GroupRow]:
    snapshot = picture.snapshot
    if snapshot is None:
        return []
    return [GroupRow(listing, picture.groups.get(name, NO_TREND), picture) for name, listing in snapshot.groups.items()]


def _lag(row: GroupRow) -> Cell:
    return _count(row.trend.lag)


def _trend(row: GroupRow) -> Cell:
    growth = row.trend.growth_per_s
    if growth is None:
        return Cell(UNKNOWN, FAINT)
    if abs(growth) < STEADY_PER_S:
        return Cell("0", FAINT)
    text = f"+{number_text(growth)}" if growth > 0 else number_text(growth)
    return Cell(text, WARN if growth > 0 and row.trend.lag else GOOD if growth < 0 else FAINT)


def _caught_up(row: GroupRow) -> Cell:
    trend = row.trend
    if trend.lag == 0:
        return Cell("now", FAINT)
    if trend.lag is None or trend.growth_per_s is None:
        return Cell(UNKNOWN, FAINT)
    if trend.caught_up_s is None or trend.growth_per_s > -STEADY_PER_S:
        return Cell("never", WARN)
    return Cell(duration_text(trend.caught_up_s), GOOD)


def _caught_up_value(row: GroupRow) -> float | None:
    trend = row.trend
    if trend.lag is None or (trend.growth_per_s is None and trend.lag):
        return None
    return float("inf") if trend.caught_up_s is None else trend.caught_up_s


def _group_spark(row: GroupRow) -> Cell:
    return _spark(row.picture.group_series(row.listing.name), "magenta")


def _state_of_group(row: GroupRow) -> Cell:
    state = row.listing.state
    return Cell(one_line(state[:NAME_CHARACTERS]) or UNKNOWN, "" if state == "Stable" else FAINT)


GROUPS = ScreenSection(
    "Groups",
    (
        _name_column("GROUP", lambda row: row.listing.name),
        Column(
            "TYPE", 8, lambda row: row.listing.type or None, lambda row: shown(row.listing.type), rank=5, is_text=True
        ),
        Column("STATE", 12, lambda row: row.listing.state or None, _state_of_group, rank=3, is_text=True),
        Column("LAG", 11, lambda row: row.trend.lag, _lag),
        Column("TREND/S", 9, lambda row: row.trend.growth_per_s, _trend),
        Column("CAUGHT UP IN", 12, _caught_up_value, _caught_up, rank=1),
        Column(
            "READS/S", 9, lambda row: row.trend.consumed_per_s, lambda row: _number(row.trend.consumed_per_s), rank=2
        ),
        _series_column("RECENT LAG", lambda row: row.trend.lag, _group_spark),
    ),
    _group_rows,
    lambda row: row.listing.name,
    3,
    lambda picture: ["no group"],
)


# --- requests


def _no_requests(picture: Picture) -> Sequence[str]:
    return NO_METRICS if picture.requests is None else ["no request yet"]


def _request_rows(picture: Picture) -> list[ApiTimes]:
    return list(picture.requests or ())


REQUESTS = ScreenSection(
    "Slow requests",
    (
        Column("BROKER", 7, lambda row: row.node_id, lambda row: shown(row.node_id), is_text=True),
        _name_column("API", lambda row: row.api),
        Column("REQUESTS/S", 10, lambda row: row.requests_per_s, lambda row: _number(row.requests_per_s)),
        Column(
            "HANDLING", 10, lambda row: row.handling_mean_s, lambda row: _time(row.handling_mean_s, 0.005, 0.05), rank=2
        ),
        Column("99 %", 10, lambda row: row.handling_high_s, lambda row: _time(row.handling_high_s, 0.01, 0.1)),
        Column("WAITING", 10, lambda row: row.waiting_mean_s, lambda row: _time(row.waiting_mean_s, 1.0, 10.0), rank=3),
        Column("99 %", 10, lambda row: row.waiting_high_s, lambda row: _time(row.waiting_high_s, 1.0, 10.0), rank=1),
    ),
    _request_rows,
    lambda row: f"{row.api} {row.node_id}",
    4,
    _no_requests,
)


# --- disks


def _disk_rows(picture: Picture) -> list[DiskRow]:
    dirs: Mapping[int, Sequence[LogDir]] = {} if picture.snapshot is None else picture.snapshot.dirs
    return [DiskRow(id, folder, folder.size) for id, folders in dirs.items() for folder in folders]


def _used(row: DiskRow) -> float | None:
    total, usable = row.folder.total_bytes, row.folder.usable_bytes
    return None if not total or usable is None else 1 - min(1.0, usable / total)


def _used_cell(row: DiskRow) -> Cell:
    used = _used(row)
    if used is None:
        return Cell(UNKNOWN, FAINT)
    return Cell(f"{used:.0%}", BAD if used >= 0.9 else WARN if used >= 0.75 else "")


def _folder_state(row: DiskRow) -> Cell:
    if row.folder.code:
        return Cell(one_line(explain_code(row.folder.code)), BAD)
    return Cell("cordoned", WARN) if row.folder.is_cordoned else Cell("online", GOOD)


DISKS = ScreenSection(
    "Disks",
    (
        Column("BROKER", 7, lambda row: row.broker, lambda row: Cell(str(row.broker)), is_text=True),
        _name_column("FOLDER", lambda row: row.folder.path),
        Column("STATE", 10, lambda row: _folder_state(row).text, _folder_state, is_text=True),
        Column("REPLICAS", 9, lambda row: len(row.folder.sizes), lambda row: _count(len(row.folder.sizes)), rank=3),
        Column("SIZE", 10, lambda row: row.size, lambda row: _size(row.size)),
        Column("FREE", 10, lambda row: row.folder.usable_bytes, lambda row: _size(row.folder.usable_bytes), rank=1),
        Column("OF", 10, lambda row: row.folder.total_bytes, lambda row: _size(row.folder.total_bytes), rank=4),
        Column("USED", 5, _used, _used_cell, rank=2),
    ),
    _disk_rows,
    lambda row: f"{row.broker} {row.folder.path}",
    0,
    lambda picture: ["no broker tells of its data folders"],
)


SECTIONS = (BROKERS, TOPICS, GROUPS, REQUESTS, DISKS)
