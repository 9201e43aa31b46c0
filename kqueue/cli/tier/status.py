"""`kqueue tier status`: what brokers have on their disks and have copied, beside the tier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from kqueue.base.text import counted
from kqueue.cli.completion import complete_topics
from kqueue.cli.connect import bootstrap_option, own_client
from kqueue.cli.output import columns, output_option, print_json

if TYPE_CHECKING:
    from kqueue.admin.tier_status import PartitionTierStatus

Ends = Mapping[tuple[str, int], "int | str"]


@click.command()
@click.argument("topics", nargs=-1, metavar="[TOPIC]...", shell_complete=complete_topics)
@click.option("--tier", "url", metavar="URL", help="Compare with the manifests of the tier at this URL.")
@output_option
@bootstrap_option
def status(topics: tuple[str, ...], url: str | None, as_json: bool, bootstrap: str) -> None:
    """Show what the brokers of tiered topics have on their disks, and what they have copied.

    \b
      kqueue tier status
      kqueue tier status orders
      kqueue tier status --tier s3://bucket/prefix -b broker:9092

    For each partition, from its leader: LOG START is the first offset of the log, LOCAL START the
    first on the disk, TIERED END the one after the last that was copied, END the high watermark.
    NOT COPIED counts offsets, those of the active segment among them, which is never copied. With
    --tier, IN TIER is the end by the manifest. It may be ahead of TIERED END for a moment.

    The exit status is 1 if a partition can't be asked, a broker has tiered storage disabled or
    another URL than the others, or the tier ends before TIERED END, or before LOCAL START: what is
    between is lost.
    """
    from kqueue.admin.tier_status import tier_status, tier_urls, tiered_topics

    with own_client(bootstrap) as client:
        metadata = client.metadata(topics or None)
        settings = tiered_topics(client, list(metadata.topics.values()))
        chosen = [topic for name, topic in sorted(metadata.topics.items()) if name in settings]
        ids = {topic.name: topic.id for topic in chosen}
        partitions = tier_status(client, chosen)
        urls = tier_urls(client, sorted(metadata.brokers)) if chosen else {}
    ends = {} if url is None else _ends(url, ids, partitions)
    problems = [*_problems_of_brokers(urls), *_problems(partitions, ends)]
    problems += [f"topic {name} is not tiered: remote.storage.enable is not true" for name in topics if name not in ids]
    if as_json:
        print_json(_json_of(partitions, settings, urls, ends, problems))
    else:
        _show(partitions, ends)
        for problem in problems:
            click.echo(f"Error: {problem}.", err=True)
    if problems:
        raise click.exceptions.Exit(1)


def _ends(url: str, ids: Mapping[str, bytes], partitions: Sequence[PartitionTierStatus]) -> dict[tuple[str, int], Any]:
    """Return the end by the manifest of each partition, or why it can't be read."""
    from kqueue.cli.tier.tier_options import opened_tier
    from kqueue.log_tools.tier.inventory import partition_inventory
    from kqueue.tier.formats.keys import TieredPartition

    ends: dict[tuple[str, int], Any] = {}
    with opened_tier(url) as store:
        for one in partitions:
            topic, index = one.partition
            found = partition_inventory(store, TieredPartition(topic, ids[topic], index))
            ends[topic, index] = found.problem or found.end_offset
    return ends


def _problems(partitions: Sequence[PartitionTierStatus], ends: Ends) -> list[str]:
    problems = []
    for one in partitions:
        topic, index = one.partition
        end = ends.get((topic, index))
        if one.error:
            problems.append(f"{topic}-{index}: {one.error}")
        if isinstance(end, str) and one.tiered_end:
            problems.append(end)
        elif isinstance(end, int) and end < (one.tiered_end or 0):
            problems.append(
                f"{topic}-{index}: the leader has copied up to {one.tiered_end}, and the tier ends at {end}"
            )
        if isinstance(end, int) and one.log_start is not None and one.local_start is not None:
            lost = one.local_start - max(end, one.log_start)
            if lost > 0:
                problems.append(
                    f"{topic}-{index}: the tier ends at {end}, and the disk of the leader begins at {one.local_start}: "
                    f"{counted(lost, 'offset')} between {'is' if lost == 1 else 'are'} lost"
                )
    return problems


def _problems_of_brokers(urls: Mapping[int, str | None]) -> list[str]:
    problems = [f"broker {node} has tiered storage disabled" for node, url in sorted(urls.items()) if url is None]
    different = sorted({url for url in urls.values() if url})
    if len(different) > 1:
        problems.append(f"brokers have {counted(len(different), 'URL')} as kqueue.tier.url, which must be one")
    return problems


def _json_of(
    partitions: Sequence[PartitionTierStatus],
    settings: Mapping[str, Mapping[str, str | None]],
    urls: Mapping[int, str | None],
    ends: Ends,
    problems: Sequence[str],
) -> dict[str, Any]:
    from kqueue.tier.stores.address import location_of

    rows = []
    for one in partitions:
        end = ends.get((one.partition.topic, one.partition.partition))
        rows.append({**one.as_json(), "in_tier": end if isinstance(end, int) else None})
    return {
        "brokers": [
            {"id": node, "enabled": url is not None, "url": location_of(url) if url else None}
            for node, url in sorted(urls.items())
        ],
        "topics": [{"topic": name, "configs": dict(values)} for name, values in sorted(settings.items())],
        "partitions": rows,
        "problems": list(problems),
    }


def _show(partitions: Sequence[PartitionTierStatus], ends: Ends) -> None:
    if not partitions:
        click.echo("No topic is tiered: none has remote.storage.enable=true.")
        return
    heads = ["PARTITION", "LEADER", "LOG START", "LOCAL START", "TIERED END", "END", "NOT COPIED"]
    rows = []
    for one in partitions:
        topic, index = one.partition
        figures = (one.log_start, one.local_start, one.tiered_end, one.end, one.lag)
        row = [f"{topic}-{index}", "none" if one.leader < 0 else one.leader, *map(_text, figures)]
        if ends:
            end = ends.get((topic, index))
            row.append(_text(end if isinstance(end, int) else None))
        rows.append(row)
    click.echo(columns([*heads, "IN TIER"] if ends else heads, rows))


def _text(figure: int | None) -> str:
    return "-" if figure is None else str(figure)
