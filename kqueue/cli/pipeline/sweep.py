"""`kqueue pipeline sweep`: deletes the state of ended exactly-once queries; runs without Spark."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click

from kqueue.base.errors import KqueueError
from kqueue.base.text import counted
from kqueue.cli.connect import bootstrap_option, own_client
from kqueue.cli.output import columns, output_option

if TYPE_CHECKING:
    from kqueue.client import Client
    from kqueue.spark.sink.staging_cleanup import StagedQuery

DAY_MS = 86_400_000
TITLES = ("QUERY", "LAST WRITE", "LAST BATCH", "STATE")


@click.command()
@click.option(
    "--query",
    "queries",
    metavar="ID",
    multiple=True,
    help="Delete the state of this query or txnAppId; may be repeated.",
)
@click.option(
    "--checkpoint",
    "checkpoints",
    metavar="FOLDER",
    multiple=True,
    help="Delete the state of this checkpoint's query; may be repeated.",
)
@click.option(
    "--unused-for",
    "days",
    metavar="DAYS",
    type=click.IntRange(min=1),
    help="Delete the state of all queries that wrote nothing for so long.",
)
@click.option("--give-up", is_flag=True, help="Delete the state of a query even if its last batch cannot be completed.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and change nothing.")
@output_option
@bootstrap_option
def sweep(
    queries: tuple[str, ...],
    checkpoints: tuple[str, ...],
    days: int | None,
    give_up: bool,
    dry_run: bool,
    as_json: bool,
    bootstrap: str,
) -> None:
    """Delete the state of queries that wrote exactly once and will not be started again.

    \b
      kqueue pipeline sweep
      kqueue pipeline sweep --unused-for 30 --dry-run
      kqueue pipeline sweep --checkpoint orders-checkpoint

    A broker keeps a topic _kqueue-sink-ID with the state of each such query. Without options this
    command lists them. A batch that a killed query left half copied is completed first. A query
    that is started again afterwards continues, but if it was killed, its last batch may be written
    twice.
    """
    from kqueue.spark.sink.staging_cleanup import query_id_of, staged_queries, unused_since

    is_list = not (queries or checkpoints or days is not None)
    for option, given, listing in (("--give-up", give_up, False), ("--dry-run", dry_run, False), ("-o", as_json, True)):
        if given and listing != is_list:
            which = "for the list, without" if listing else "for"
            raise click.UsageError(f"{option} is {which} --query, --checkpoint or --unused-for")
    try:
        with own_client(bootstrap, client_id="kqueue-pipeline") as client:
            kept = staged_queries(client)
            named = [*queries, *map(query_id_of, checkpoints)]
            if is_list:
                _show(kept, as_json)
                return
            unused = [] if days is None else unused_since(kept, int(time.time() * 1000) - days * DAY_MS)
            _forget_all(
                client, dict.fromkeys([*named, *(one.query_id for one in unused)]), finish=not give_up, dry_run=dry_run
            )
    except ValueError as error:
        raise click.ClickException(str(error)) from None


def _forget_all(client: Client, names: dict[str, None], *, finish: bool, dry_run: bool) -> None:
    from kqueue.spark.sink.staging_cleanup import forget

    failed = []
    for name in names:
        try:
            if not dry_run:
                forget(client, name, finish=finish)
            click.echo(f"{'Would forget' if dry_run else 'Forgot'} {name}.")
        except (KqueueError, ValueError) as error:
            failed.append(f"{name} was not forgotten: {error}")
    if not names:
        click.echo("Nothing to forget.")
    if failed:
        raise click.ClickException("\n".join(failed))


def _show(kept: list[StagedQuery], as_json: bool) -> None:
    if as_json:
        for one in kept:
            click.echo(json.dumps(one._asdict()))
    elif kept:
        click.echo(
            columns(
                TITLES,
                [(one.query_id, _when(one.last_ms), "-" if one.done < 0 else one.done, _state(one)) for one in kept],
            )
        )
    else:
        click.echo("No query wrote exactly once here, or all are forgotten.")


def _when(time_ms: int | None) -> str:
    return "-" if time_ms is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(time_ms / 1000))


def _state(one: StagedQuery) -> str:
    if one.unreadable:
        return "its journal can't be read"
    if one.unfinished is not None:
        return f"batch {one.unfinished} is not whole yet"
    return f"{counted(one.staged, 'record')} staged" if one.staged else "nothing under way"
