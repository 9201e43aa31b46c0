"""`kqueue plugins list`: every plugin and built-in, where it comes from, whether it can be used,
and who uses it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from kqueue.cli.connect import bootstrap_option
from kqueue.cli.output import output_option, table_console
from kqueue.cli.plugins.inventory import FAILED, Plugin, Section, sections
from kqueue.cli.plugins.usage import NOBODY, ask

if TYPE_CHECKING:
    from rich.table import Table

TOPICS_SHOWN = 3
USERS_WIDTH = 30  # columns; where fewer are left beside the table, its users stand under it
TITLES = {
    "codec": "Codecs",
    "partitioner": "Partitioners",
    "assignor": "Assignors",
    "cleanup-policy": "Cleanup policies",
    "storage": "Storages",
    "metadata-store": "Metadata stores",
    "authorizer": "Authorizers",
    "tier-store": "Tier stores",
    "command": "Commands",
}
CELLS: tuple[tuple[str, Callable[[Plugin], str]], ...] = (
    ("NAME", lambda plugin: plugin.name),
    ("ID", lambda plugin: "" if plugin.id is None else str(plugin.id)),
    ("FROM", lambda plugin: plugin.origin),
    ("STATE", lambda plugin: plugin.state),
)


@click.command("list")
@output_option
@bootstrap_option(waits=False)
def list_plugins(as_json: bool, bootstrap: str) -> None:
    """Show what fills kqueue's contracts in this installation: kqueue's own, and what installed
    distributions bring.

    \b
      kqueue plugins
      kqueue plugins --bootstrap-server localhost:9092
      kqueue plugins list --json

    STATE is ready, in use (it serves its ID: the number that stands in record batches), waits
    (another serves that ID), failed (with the error, and no harm to the rest), not here (the broker
    or its topics name it, but this installation lacks it) or by path (the broker has it as
    module:object).

    USED BY is what the broker says that answers at --bootstrap-server: topics by their
    cleanup.policy, compression.type and kqueue.partitioner, brokers by kqueue.storage,
    kqueue.metadata, kqueue.codecs and group.consumer.assignors. Where no broker answers it is left
    out.
    """
    usage, trouble = NOBODY, None
    try:
        usage = ask(bootstrap)
    except click.UsageError:
        raise
    except click.ClickException as error:
        trouble = error.message
    listed = sections(usage)
    if as_json:
        click.echo(json.dumps(as_dict(listed, None if trouble else bootstrap, trouble), ensure_ascii=False))
    else:
        _print(listed, trouble)


def as_dict(listed: list[Section], bootstrap: str | None, trouble: str | None) -> dict[str, Any]:
    """Return all rows; ``broker`` is None if none answered, and ``broker_error`` says why."""
    plugins = [
        {
            "kind": plugin.kind,
            "name": plugin.name,
            "id": plugin.id,
            "origin": plugin.origin,
            "state": plugin.state,
            "why": plugin.why,
            "topics": list(plugin.topics),
            "brokers": list(plugin.brokers),
        }
        for section in listed
        for plugin in section.plugins
    ]
    return {"plugins": plugins, "broker": bootstrap, "broker_error": trouble}


def _print(listed: list[Section], trouble: str | None) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console = table_console()
    widths = [
        max(len(text) for section in listed for plugin in section.plugins for text in (title, cell(plugin)))
        for title, cell in CELLS
    ]
    users_fit = console.width - sum(widths) - 2 * len(widths) >= USERS_WIDTH
    for section in listed:
        if not section.plugins:
            continue
        console.print(
            Text.assemble((TITLES[section.kind], "bold"), f"  (entry points {section.group})"), soft_wrap=True
        )
        console.print(_table(section, widths, with_users=users_fit and not trouble))
        for line in _notes(section, with_users=not users_fit):
            console.print(Padding(Text(line), (0, 0, 0, 1), expand=False))
        console.print()
    if trouble:
        console.print(Text(f"Who uses them is not shown: {trouble}"))


def _table(section: Section, widths: list[int], *, with_users: bool) -> Table:
    """Return the table of a section. All sections have equal column widths, so they align."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None)
    for (title, _), width in zip(CELLS, widths, strict=True):
        table.add_column(title, min_width=width, overflow="fold")
    if with_users:
        table.add_column("USED BY", overflow="fold")
    for plugin in section.plugins:
        cells = [cell(plugin) for _, cell in CELLS] + ([_users(plugin)] if with_users else [])
        table.add_row(*map(Text, cells), style="red" if plugin.state == FAILED else None)
    return table


def _notes(section: Section, *, with_users: bool) -> Iterator[str]:
    for plugin in section.plugins:
        if with_users and _users(plugin):
            yield f"{plugin.name} is used by {_users(plugin)}"
        if plugin.why:
            yield f"{plugin.name}: {plugin.why}"


def _users(plugin: Plugin) -> str:
    more = len(plugin.topics) - TOPICS_SHOWN
    users = [f"broker {id}" for id in plugin.brokers] + list(plugin.topics[:TOPICS_SHOWN])
    return ", ".join(users) + (f" and {more} more" if more > 0 else "")
