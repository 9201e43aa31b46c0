"""`kqueue log export`: records to Parquet, Arrow or JSON lines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from kqueue.base.errors import ExtraNeeded, KqueueError
from kqueue.base.text import counted, size_text
from kqueue.cli.formats import parse_time
from kqueue.cli.log.folder_or_url import FOLDER_OR_URL
from kqueue.log_tools.errors import NotALogFolder

FORMATS = ("parquet", "arrow", "jsonl")
FORMS = ("binary", "utf8", "json", "short", "integer", "long", "float", "double")


class InvalidArguments(click.ClickException):
    """Invalid arguments; exits as after a usage error."""

    exit_code = 2


@click.command()
@click.argument("folders", nargs=-1, required=True, type=FOLDER_OR_URL, metavar="FOLDER...")
@click.option(
    "--to",
    required=True,
    metavar="FILE",
    help="The file: .parquet, .arrow or .jsonl; - is standard output (JSON lines).",
)
@click.option("--format", "form", type=click.Choice(FORMATS), help="The format, if the file's suffix does not name it.")
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="NAME",
    help="Of a data folder, this topic alone; may be repeated.",
)
@click.option("--start-offset", type=click.IntRange(min=0), metavar="N", help="From this offset on.")
@click.option("--end-offset", type=click.IntRange(min=0), metavar="N", help="Up to this offset, without it.")
@click.option("--since", metavar="TIME", help="Records of this time (ISO or milliseconds) or later.")
@click.option("--until", metavar="TIME", help="Records before this time.")
@click.option("--read-committed", is_flag=True, help="Leave out records of transactions that are open or were aborted.")
@click.option("--key-as", type=click.Choice(FORMS), default="binary", show_default=True, help="The form of keys.")
@click.option("--value-as", type=click.Choice(FORMS), default="binary", show_default=True, help="The form of values.")
@click.option("--skip-damaged", is_flag=True, help="Skip damaged batches and report them, instead of stopping.")
@click.option("--overwrite", is_flag=True, help="Replace the file if it is there.")
def export(folders: tuple[str | Path, ...], to: str, form: str | None, topics: tuple[str, ...], **options: Any) -> None:
    """Write the records of FOLDERs (of partitions, or data folders) to one file.

    \b
      kqueue log export kqueue-data/orders-0 --to orders.parquet
      kqueue log export kqueue-data --topic orders --to orders.arrow --value-as utf8
      kqueue log export kqueue-data/orders-* --to orders.jsonl --since 2026-01-31T12:00:00Z
      kqueue log export s3://bucket/prefix --topic orders --to orders.parquet

    Columns: topic, partition, offset, timestamp, timestamp_type, key, value, headers, leader_epoch,
    producer_id, producer_epoch, sequence. A FOLDER may be the URL of a tier, or of a partition in
    it. The file gets its name when it is complete. Parquet
    and Arrow need the extra `arrow` (docs/install.md says how to install it).
    """
    from kqueue.log_tools.rows import Selection

    damages: list[object] = []
    selection = Selection(
        options["start_offset"],
        options["end_offset"],
        _time(options["since"], "--since"),
        _time(options["until"], "--until"),
        options["read_committed"],
        options["key_as"],
        options["value_as"],
        on_damage=damages.append if options["skip_damaged"] else "raise",
    )
    _export(folders, to, form, topics, selection, options["overwrite"])
    for damage in damages:
        click.echo(f"Left out: {damage}", err=True)


def _time(text: str | None, option: str) -> int | None:
    try:
        return None if text is None else parse_time(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


def _export(
    folders: tuple[str | Path, ...],
    to: str,
    form: str | None,
    topics: tuple[str, ...],
    selection: Any,
    overwrite: bool,
) -> None:
    from kqueue.cli.log.progress_bar import progress_bar
    from kqueue.log_tools.export import STANDARD_OUTPUT, open_logs
    from kqueue.log_tools.export import export as write

    output = sys.stdout.buffer if to == STANDARD_OUTPUT else None
    form = form or ("jsonl" if output is not None else None)
    try:
        logs = open_logs(folders, topics)
        with progress_bar("Exporting") as progress:
            result = write(
                logs, to, format=form, selection=selection, overwrite=overwrite, progress=progress, output=output
            )
    except FileExistsError as error:
        raise click.ClickException(f"{error}; name another file, or add --overwrite.") from None
    except (NotALogFolder, ValueError) as error:
        raise InvalidArguments(f"{error}.") from None
    except ExtraNeeded as error:
        raise click.ClickException(str(error)) from None
    except (KqueueError, OSError) as error:
        raise click.ClickException(f"{error}.") from None
    if output is None:
        rows, partitions = counted(result.rows, "record"), counted(len(result.partitions), "partition")
        click.echo(f"Wrote {rows} of {partitions} to {to} ({size_text(Path(to).stat().st_size)}).")
