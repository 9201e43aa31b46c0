"""`kqueue pipeline audit`."""

from __future__ import annotations

import json

import click

from kqueue.cli.pipeline.shared import bootstrap_option, master_option, path_option, session, source_of, topics_option


@click.command()
@topics_option
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each partition.")
@path_option
@bootstrap_option
@master_option
def audit(topics: tuple[str, ...], as_json: bool, path: str | None, bootstrap: str, master: str) -> None:
    """Count the records of topics, and what is missing or repeated among them.

    \b
      kqueue pipeline audit --topic orders
      kqueue pipeline audit --topic orders --path kqueue-data --json
    """
    with session(master) as spark:
        from kqueue.spark.jobs.audit import audit as run

        found = run(spark, source_of(topics, path, bootstrap))
    if as_json:
        for row in found:
            click.echo(json.dumps(row._asdict()))
        return
    lines = [("TOPIC", "PARTITION", "RECORDS", "FIRST", "LAST", "GAPS", "REPEATED")]
    lines += [tuple(map(str, row[:7])) for row in found]  # type: ignore[misc]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
