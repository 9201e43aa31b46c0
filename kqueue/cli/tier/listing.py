"""`kqueue tier list`: topics, partitions and segments of a tier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kqueue.base.names import uuid_text
from kqueue.base.text import counted, size_text
from kqueue.cli.output import output_option, print_json, table_console
from kqueue.cli.tier.tier_options import moment, opened_tier, topic_option, url_argument

if TYPE_CHECKING:
    from kqueue.log_tools.tier.inventory import TopicInventory
    from kqueue.tier.formats.segments import TieredSegment


@click.command("list")
@url_argument
@topic_option
@click.option("--segments", is_flag=True, help="List each segment.")
@output_option
def list_tier(url: str, topics: tuple[str, ...], segments: bool, as_json: bool) -> None:
    """List what the tier at URL has: topics, partitions, offsets, bytes and times.

    \b
      kqueue tier list s3://bucket/prefix
      kqueue tier list file:///mnt/tier --topic orders --segments
      kqueue tier list s3://bucket/prefix --json

    START is the first offset that can be read, END the one after the last. NEWEST is the greatest
    time of a record, COPIED the time when the newest copy began. Objects are not looked at: `kqueue
    tier verify` does that.

    The exit status is 1 if a record or manifest can't be read.
    """
    from kqueue.log_tools.tier.inventory import partition_segments, tier_inventory

    with opened_tier(url, topics) as store:
        found = list(tier_inventory(store, topics))
        listed: dict[tuple[bytes, int], list[TieredSegment]] = {}
        if segments:
            for topic in found:
                for one in topic.partitions:
                    if not one.problem:
                        key = topic.topic.topic_id, one.partition.partition
                        listed[key] = list(partition_segments(store, one.partition))
    if as_json:
        print_json({"location": store.location, "topics": [_json_of(topic, listed, segments) for topic in found]})
    else:
        _print_partitions(found)
        if segments:
            _print_segments(found, listed)
        _print_summary(found, store.location)
    if any(topic.topic.problem or any(one.problem for one in topic.partitions) for topic in found):
        raise click.exceptions.Exit(1)


def _json_of(
    topic: TopicInventory, listed: dict[tuple[bytes, int], list[TieredSegment]], segments: bool
) -> dict[str, Any]:
    values = topic.as_json()
    if segments:
        for partition in values["partitions"]:
            rows = listed.get((topic.topic.topic_id, partition["partition"]), [])
            partition["segment_list"] = [segment.to_json() for segment in rows]
    return values


def _print_partitions(found: list[TopicInventory]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None)
    for title in ("TOPIC", "ID"):
        table.add_column(title, overflow="fold")
    for title in ("PARTITION", "SEGMENTS", "START", "END", "SIZE"):
        table.add_column(title, justify="right")
    for title in ("NEWEST", "COPIED"):
        table.add_column(title)
    for topic in found:
        name = topic.topic.topic + (" (deleted)" if topic.topic.is_deleted else "")
        for one in topic.partitions:
            figures = (one.segments, one.start_offset, one.end_offset, size_text(one.size))
            cells = ["?"] * 4 if one.problem else list(map(str, figures))
            times = (moment(one.newest_ms), moment(one.copied_ms))
            row = (name, uuid_text(topic.topic.topic_id), str(one.partition.partition), *cells, *times)
            table.add_row(*map(Text, row))
    if table.row_count:
        table_console().print(table)
    for topic in found:
        problems = [topic.topic.problem, *(one.problem for one in topic.partitions)]
        for problem in filter(None, problems):
            click.echo(f"Error: {problem}", err=True)


def _print_segments(found: list[TopicInventory], listed: dict[tuple[bytes, int], list[TieredSegment]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None)
    table.add_column("PARTITION", overflow="fold")
    for title in ("BASE", "START", "END", "SIZE", "EPOCH", "BROKER"):
        table.add_column(title, justify="right")
    for title in ("NEWEST", "COPIED", "OBJECT"):
        table.add_column(title)
    for topic in found:
        for one in topic.partitions:
            for segment in listed.get((topic.topic.topic_id, one.partition.partition), []):
                figures = (segment.base_offset, segment.start_offset, segment.end_offset, size_text(segment.size))
                times = (moment(segment.max_timestamp), moment(segment.copied_ms))
                writer = (segment.leader_epoch, segment.broker)
                cells = (one.partition, *figures, *writer, *times, segment.object_id)
                table.add_row(*(Text(str(cell)) for cell in cells))
    if table.row_count:
        table_console().print(table)


def _print_summary(found: list[TopicInventory], location: str) -> None:
    partitions = [one for topic in found for one in topic.partitions]
    segments, size = sum(one.segments for one in partitions), sum(one.size for one in partitions)
    click.echo(
        f"{counted(len(found), 'topic')}, {counted(len(partitions), 'partition')}, {counted(segments, 'segment')} "
        f"({size_text(size)}) in {location}."
    )
