"""`kqueue pipeline archive` and `kqueue pipeline replay`."""

from __future__ import annotations

import click

from kqueue.base.text import counted
from kqueue.cli.completion import complete_topics
from kqueue.cli.connect import bootstrap_option
from kqueue.cli.formats import parse_time
from kqueue.cli.pipeline.spark_command import (
    broker_options,
    for_check,
    is_given,
    location,
    master_option,
    path_option,
    pattern_option,
    report_progress,
    report_unread,
    s3_endpoint_option,
    session,
    some_topics_option,
    source_options,
)
from kqueue.spark.errors import OptionError

CODECS = ("zstd", "snappy", "gzip", "lz4", "none")
ISOLATIONS = ("read_committed", "read_uncommitted")
DELIVERIES = ("at-least-once", "exactly-once", "transactional")


def _time(ctx: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    try:
        return None if text is None else parse_time(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument("folder")
@some_topics_option
@pattern_option
@click.option(
    "--compression",
    type=click.Choice(CODECS),
    default="zstd",
    show_default=True,
    help="The codec of the Parquet files.",
)
@click.option(
    "--since",
    metavar="TIME",
    callback=_time,
    help="Archive new records from the first one of this time on.",
)
@click.option(
    "--until", metavar="TIME", callback=_time, help="Archive up to the first record of this time (ISO or milliseconds)."
)
@click.option(
    "--isolation",
    type=click.Choice(ISOLATIONS),
    default=ISOLATIONS[0],
    show_default=True,
    help="Whether to skip aborted transactions.",
)
@click.option("--skip-deleted", is_flag=True, help="Continue where records were deleted before they were archived.")
@s3_endpoint_option
@path_option
@bootstrap_option
@master_option
def archive(
    folder: str,
    topics: tuple[str, ...],
    pattern: str | None,
    compression: str,
    since: int | None,
    until: int | None,
    isolation: str,
    skip_deleted: bool,
    s3_endpoint: str | None,
    path: str | None,
    bootstrap: str,
    master: str | None,
) -> None:
    """Write the records of topics to Parquet in FOLDER (or s3://BUCKET/PREFIX), by topic and day.

    \b
      kqueue pipeline archive kept --topic orders
      kqueue pipeline archive kept --topic orders --path kqueue-data
      kqueue pipeline archive s3://bucket/kept --topic orders
      kqueue pipeline archive kept --pattern 'orders.*' --until 2026-01-31T00:00:00Z

    Another run adds newer records. Each record is archived once, also if a run is killed: the next
    run continues. Run one archive job per FOLDER at a time. Days are in UTC.
    """
    if not topics and pattern is None:
        raise click.UsageError("say what to archive: --topic (once or more), or --pattern")
    if since is not None and until is not None and since >= until:
        raise click.UsageError("--since and --until contradict each other: no record is from then on and before")
    source = {**source_options(topics, path, bootstrap, pattern), "kafka.isolation.level": isolation}
    source["failOnDataLoss"] = str(not skip_deleted).lower()
    place = location(folder, s3_endpoint)

    def check() -> None:
        from kqueue.spark.jobs.archive import check

        check(for_check(source), place)

    with session(
        master, bootstrap=bootstrap if path is None else None, folders=[path], place=place, check=check
    ) as spark:
        from kqueue.spark.jobs.archive import archive as run

        done = run(
            spark,
            source,
            place,
            compression=compression,
            since_ms=since,
            until_ms=until,
            tell=report_progress,
        )
    click.echo(
        f"Archived {counted(done.rows, 'record')} in {counted(done.files, 'file')}; the archive now has "
        f"{done.rows_total:,}."
    )
    report_unread(done.unread)


@click.command()
@click.argument("folder")
@click.option(
    "-t",
    "--topic",
    shell_complete=complete_topics,
    help="Send all records to this topic.  [default: the topic of each record]",
)
@click.option("--create", is_flag=True, help="Create missing topics, without a retention limit.")
@click.option(
    "--delivery",
    type=click.Choice(DELIVERIES),
    default=DELIVERIES[0],
    show_default=True,
    help="The guarantee when a replay is started again.",
)
@click.option(
    "--run",
    "name",
    default="1",
    show_default=True,
    metavar="NAME",
    help="With exactly-once and transactional: a new name sends everything again.",
)
@s3_endpoint_option
@bootstrap_option
@master_option
def replay(
    folder: str,
    topic: str | None,
    create: bool,
    delivery: str,
    name: str,
    s3_endpoint: str | None,
    bootstrap: str,
    master: str | None,
) -> None:
    """Send the archive in FOLDER to a broker, with partitions, order, timestamps and headers.

    \b
      kqueue pipeline replay kept --topic orders-again --create
      kqueue pipeline replay kept --delivery exactly-once

    With exactly-once, a replay that was interrupted and is started again sends nothing twice, and a
    finished one sends only records that are new to the archive. With transactional too, and readers
    of committed records see each batch of the archive as a whole.
    """
    if is_given("name") and delivery == DELIVERIES[0]:
        raise click.UsageError(f"--run is for --delivery {' and '.join(DELIVERIES[1:])}: {delivery} keeps no progress")
    place = location(folder, s3_endpoint)

    def check() -> None:
        from kqueue.spark.jobs.replay import check, check_run

        try:
            check_run(name)
        except OptionError as error:
            raise click.BadParameter(str(error), param_hint="--run") from None
        check(place, broker_options(bootstrap), topic=topic, create=create)

    with session(master, bootstrap=bootstrap, place=place, is_written=False, check=check) as spark:
        from kqueue.spark.jobs.replay import replay as run

        done = run(
            spark,
            place,
            broker_options(bootstrap),
            topic=topic,
            create=create,
            delivery=delivery,
            run=name,
            tell=report_progress,
        )
    if done.made:
        click.echo(f"Created {', '.join(done.made)}.")
    before = f"; {done.before:,} were sent before" if done.before else ""
    click.echo(f"Sent {counted(done.rows, 'record')} to {', '.join(done.topics)}{before}.")
