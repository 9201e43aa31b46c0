"""One group as its page shows it: members, partitions with their lag and history, charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kqueue.admin.group_members import describe_group
from kqueue.admin.group_partitions import SHARE, STREAMS, group_partitions, owners
from kqueue.admin.log_ends import ends_with_leader
from kqueue.client import Client, ClusterMetadata, GroupDescription, GroupListing, GroupMember, TopicPartition
from kqueue.client.errors import ClientError
from kqueue.console.charts.line_chart import SERIES_MAX, ChartSeries, LineChart, line_chart, sparkline
from kqueue.console.charts.units import Unit
from kqueue.console.groups.group_rows import SinceText, since_text
from kqueue.console.history.cluster_history import ClusterHistory
from kqueue.console.history.series import Point

ASSIGNED_SHOWN = 100


@dataclass(frozen=True, slots=True)
class OffsetRow:
    """A partition of a group. None: unknown.

    Attributes:
        position: the committed offset; of a share group its start offset.
        end: of the log.
        lag: records to read; of a share group those that are not done.
        done_ahead: of a share group: records after its start that are done already.
        is_pending: an open transaction may replace the committed offset.
    """

    topic: str
    partition: int
    position: int | None
    end: int | None
    lag: int | None
    member: GroupMember | None = None
    is_pending: bool = False
    done_ahead: int | None = None

    @property
    def name(self) -> str:
        """Topic and number, as Kafka writes them."""
        return f"{self.topic}-{self.partition}"

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group and its partitions, those with the most lag first."""

    description: GroupDescription
    partitions: Sequence[OffsetRow]

    @property
    def is_share(self) -> bool:
        """Whether it is a share group, which has start offsets."""
        return self.description.type == SHARE

    @property
    def is_streams(self) -> bool:
        """Whether its members have tasks."""
        return self.description.type == STREAMS

    @property
    def lag(self) -> int | None:
        """The records to read in all partitions together; None: of none it is known."""
        known = [row.lag for row in self.partitions if row.lag is not None]
        return sum(known) if known else None

    @property
    def topics(self) -> list[str]:
        """The topics of its partitions, sorted."""
        return sorted({row.topic for row in self.partitions})


def group_view(client: Client, listing: GroupListing, cluster: ClusterMetadata) -> GroupView:
    """Return a group. Raises: ClientError."""
    description = describe_group(client, listing.name, listing.type)
    rows = (
        _share_rows(client, listing.name, cluster)
        if listing.type == SHARE
        else _offset_rows(client, description, cluster)
    )
    return GroupView(description, sorted(rows, key=lambda row: (-(row.lag or 0), row.topic, row.partition)))


def _offset_rows(client: Client, description: GroupDescription, cluster: ClusterMetadata) -> list[OffsetRow]:
    name = description.name
    committed = {one: entry.offset for one, entry in client.committed(name, stable=False).items()}
    partitions = {*committed, *owners(description)}
    try:
        pending = client.pending_offsets(name, partitions) if partitions else set()
    except ClientError:
        pending = set()  # before Kafka 2.5, or a topic that is gone
    ends = ends_with_leader(client, partitions, cluster.topics)
    return [
        OffsetRow(row.topic, row.partition, row.committed, row.end, row.lag, row.member, row.is_pending)
        for row in group_partitions(description, committed, ends, pending)
    ]


def _share_rows(client: Client, name: str, cluster: ClusterMetadata) -> list[OffsetRow]:
    offsets = client.share_offsets(name)
    ends = ends_with_leader(client, offsets, cluster.topics)
    rows = []
    for one, offset in offsets.items():
        end = ends.get(one)
        is_known = None not in (offset.start, offset.lag, end)
        ahead = max(0, (end or 0) - (offset.start or 0) - (offset.lag or 0)) if is_known else None
        rows.append(OffsetRow(one.topic, one.partition, offset.start, end, offset.lag, done_ahead=ahead))
    return rows


@dataclass(frozen=True, slots=True)
class PartitionHistory:
    """What the history knows of a partition. `spark`: its lag; `since`: None: it is not behind."""

    spark: Markup
    since: SinceText | None


def partition_histories(
    history: ClusterHistory | None, group: str, rows: Sequence[OffsetRow], now_ms: int
) -> dict[str, PartitionHistory]:
    """Return the history of each row by the partition's name."""
    if history is None:
        return {}
    return {
        row.name: PartitionHistory(
            sparkline(history.partition_lags(group, row.topic_partition), f"lag in {row.name}"),
            since_text(history.behind_since(group, row.topic_partition), now_ms),
        )
        for row in rows
    }


def group_charts(history: ClusterHistory, view: GroupView, resolution: int) -> list[LineChart]:
    """Return the charts of a group's lag: of all, and of the partitions with the most."""
    name = view.description.name
    total: Sequence[Point] = history.group_lags(name, resolution)
    charts = [line_chart("lag", "Lag", [ChartSeries("all partitions", total)], Unit.RECORDS)]
    if len(view.partitions) > 1:
        lines = [
            ChartSeries(row.name, history.partition_lags(name, row.topic_partition, resolution))
            for row in view.partitions[:SERIES_MAX]
        ]
        charts.append(line_chart("partitions", "Lag of the partitions with the most", lines, Unit.RECORDS))
    return charts
