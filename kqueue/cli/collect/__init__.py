"""`kqueue collect`: an agent that follows files and sends their lines."""

from __future__ import annotations

import secrets
import socket
import sys
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kqueue.cli.connect import addresses, bootstrap_option, checked_topic, explain, require_client
from kqueue.cli.output import Counter, counted
from kqueue.cli.signals import ending

if TYPE_CHECKING:
    from kqueue.cli.collect.line_sender import LineSender
    from kqueue.cli.collect.resume_dedup import DeliveredLine
    from kqueue.cli.collect.state_file import AgentState

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LINE_BYTES_MAX = 16 * 1024 * 1024
KiB = 1024


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("-t", "--topic", required=True, help="Where the lines go.")
@click.option(
    "--from-beginning", is_flag=True, help="Send what stands in the files already; else only what is added from now on."
)
@click.option("--once", is_flag=True, help="Send what there is (from the beginning), and end.")
@click.option("--interval", "interval_s", type=click.FloatRange(min=0.01), default=1.0, show_default=True, metavar="SECONDS",
              help="How often to look for new lines.")  # fmt: skip
@click.option("--batch", "lines_max", type=click.IntRange(min=1, max=100_000), default=5000, show_default=True, metavar="N",
              help="Keep the position after so many lines at most.")  # fmt: skip
@click.option("--key", type=click.Choice(["path", "name", "host", "none"]), default="path", show_default=True,
              help="The key of a record: lines with the same key stay in order.")  # fmt: skip
@click.option("--max-line", "line_bytes_max", type=click.IntRange(min=16, max=LINE_BYTES_MAX), default=512 * KiB, show_default=True,
              metavar="BYTES", help="Longer lines come in parts.")  # fmt: skip
@click.option("--partial", "partial_s", type=click.FloatRange(min=0), default=10.0, show_default=True, metavar="SECONDS",
              help="How long an unfinished last line may wait for its end.")  # fmt: skip
@click.option("--state", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Where the positions are kept.  [default: kqueue-collect-TOPIC.json]")  # fmt: skip
@click.option("--host", default=None, help="The header `host` of each record.  [default: this machine's name]")
@click.option(
    "--codec", type=click.Choice(CODECS), default="none", show_default=True, help="How batches are compressed."
)
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0), metavar="SECONDS",
              help="End when the broker has not answered for so long.  [default: never]")  # fmt: skip
@bootstrap_option
def collect(files: tuple[str, ...], topic: str, **options: Any) -> None:
    """Follow FILEs and send each line that is added to them to a topic, until Ctrl-C.

    \b
      kqueue collect /var/log/app.log --topic logs
      kqueue collect '/var/log/app/*.log' --topic logs --from-beginning --codec zstd
      kqueue collect export.csv --topic rows --once

    FILE may be a pattern, in quotes, so that files which come later are found too (those that are
    compressed are left out). Files may be rotated, truncated, removed and made again. How far each
    was sent is kept in a file, so an agent that was ended, or killed, goes on where it stood. Each
    record has the headers host, file, source and offset; the last two name the line. An unfinished
    or very long line comes in parts, with the header part counted from 0.
    """
    checked_topic(topic)
    for file in files:
        if Path(file).is_dir():
            raise click.BadParameter(
                f"{file} is a folder; write {file.rstrip('/')}/* in quotes for the files in it", param_hint="FILE"
            )
    require_client()
    addresses(options["bootstrap"])
    stop = threading.Event()
    with ending(stop.set):
        _run(files, topic, stop, **options)


def _run(
    files: tuple[str, ...],
    topic: str,
    stop: threading.Event,
    *,
    from_beginning: bool,
    once: bool,
    interval_s: float,
    lines_max: int,
    key: str,
    line_bytes_max: int,
    partial_s: float,
    state: Path | None,
    host: str | None,
    codec: str,
    timeout_s: float | None,
    bootstrap: str,
) -> None:
    from kqueue.cli.collect.agent import Agent, resume
    from kqueue.cli.collect.file_tailer import FileTailer
    from kqueue.cli.collect.line_sender import LineRejected, LineSender
    from kqueue.cli.collect.state_file import StateFile, StateUnusable

    kept = StateFile(state or Path(f"kqueue-collect-{topic}.json"), topic)
    sender = LineSender(
        topic,
        host or socket.gethostname(),
        key,
        _client_options(bootstrap, codec, line_bytes_max),
        stopped=stop.is_set,
        wait=stop.wait,
        tell=_tell,
        timeout_s=timeout_s,
    )
    tailer = FileTailer(
        [str(Path(file).absolute()) for file in files],
        line_bytes_max=line_bytes_max,
        partial_s=partial_s,
        now_s=time.monotonic,
        new_source=lambda: secrets.token_hex(8),
        tell=_tell,
        from_end=not (from_beginning or once),
        ignored=kept.names(),
    )
    finished = False
    with Counter("lines sent", shown=sys.stderr.isatty()) as counter:
        try:
            with kept.held():
                before = resume(tailer, kept)
                if sender.check_topic():
                    finished = Agent(
                        tailer,
                        sender,
                        kept,
                        interval_s=interval_s,
                        lines_max=lines_max,
                        once=once,
                        stopped=stop.is_set,
                        wait=stop.wait,
                        show=counter.show,
                        arrived=_arrived(sender, before, bootstrap),
                    ).run()
        except (LineRejected, StateUnusable) as error:
            raise click.ClickException(str(error)) from None
        finally:
            tailer.close()
            sender.close()
    left = "" if finished else "; what was not confirmed is sent at the next start"
    click.echo(f"Sent {counted(sender.sent, 'line')} to {topic}{left}.", err=True)


def _arrived(sender: LineSender, state: AgentState | None, bootstrap: str) -> Collection[DeliveredLine]:
    """The lines that a run which did not end well had sent after its position was kept. Sets where
    the topic's partitions end.
    """
    from kafka.errors import KafkaError

    from kqueue.cli.collect.resume_dedup import find_delivered

    ends = None if state is None or state.stopped else dict(state.ends)
    sources = () if state is None else {position.source for position in state.positions}
    options = {"bootstrap_servers": bootstrap.split(","), "client_id": "kqueue-collect", "metrics_enabled": False}
    try:
        found = find_delivered(options, sender.topic, ends, sources)
    except KafkaError as error:
        _tell(f"what was sent last can't be looked up ({explain(error)}); lines may come twice")
        sender.ends.update(ends or {})
        return ()
    if not found.complete:
        _tell("others have sent too much to find what was sent last; lines may come twice")
    sender.ends.update(found.ends)
    return found.arrived


def _client_options(bootstrap: str, codec: str, line_bytes_max: int) -> dict[str, Any]:
    from kqueue.cli.collect import line_sender

    return {
        "bootstrap_servers": bootstrap.split(","),
        "client_id": "kqueue-collect",
        "bootstrap_timeout_ms": line_sender.CONNECT_TIMEOUT_MS,
        "max_block_ms": line_sender.CONNECT_TIMEOUT_MS,
        "delivery_timeout_ms": line_sender.DELIVERY_TIMEOUT_MS,
        "reconnect_backoff_max_ms": line_sender.RECONNECT_MS_MAX,
        "compression_type": None if codec == "none" else codec,
        "acks": "all",
        "enable_idempotence": True,
        "linger_ms": 5,
        "batch_size": line_sender.BATCH_BYTES,
        "max_request_size": max(1024 * KiB, line_bytes_max + 64 * KiB),
        "metrics_enabled": False,
    }


def _tell(sentence: str) -> None:
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""  # the counter's line may stand there
    click.echo(clear + sentence[:1000], err=True)
