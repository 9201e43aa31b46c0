"""`kqueue collect`: follow files and send their lines; the work is in `kqueue.collect`."""

from __future__ import annotations

import secrets
import socket
import sys
import threading
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kqueue.base.clock import monotonic_s
from kqueue.base.terminal import trusted
from kqueue.base.text import counted
from kqueue.cli.completion import complete_topics
from kqueue.cli.connect import (
    BrokerNotFound,
    addresses,
    bootstrap_option,
    checked_topic,
    client_arguments,
    explain,
    find_broker,
    require_client,
)
from kqueue.cli.output import Counter
from kqueue.cli.signals import stop_on_signal
from kqueue.cli.topic_creation import TopicCreationNotice

if TYPE_CHECKING:
    from kafka import KafkaProducer

    from kqueue.collect.file_tailer import FileTailer
    from kqueue.collect.line_sender import LineSender
    from kqueue.collect.resume_dedup import DeliveredLine
    from kqueue.collect.state_file import AgentState, StateFile

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LINE_BYTES_MAX = 16 * 1024 * 1024
KiB = 1024


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("-t", "--topic", required=True, shell_complete=complete_topics, help="The topic that receives the lines.")
@click.option(
    "--from-beginning", is_flag=True, help="Send the existing content of the files too, not only what is added."
)
@click.option("--once", is_flag=True, help="Send all content (from the beginning), and end.")
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0.01),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Pause between looks for new lines.",
)
@click.option(
    "--batch",
    "lines_max",
    type=click.IntRange(min=1, max=100_000),
    default=5000,
    show_default=True,
    metavar="N",
    help="Save the position after so many lines at most.",
)
@click.option("--key", type=click.Choice(["path", "name", "host", "none"]), default="path", show_default=True,
              help="The key of a record: lines with the same key stay in order.")  # fmt: skip
@click.option(
    "--max-line",
    "line_bytes_max",
    type=click.IntRange(min=16, max=LINE_BYTES_MAX),
    default=512 * KiB,
    show_default=True,
    metavar="BYTES",
    help="Longer lines are sent in parts.",
)
@click.option(
    "--partial",
    "partial_s",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the end of an unfinished last line.",
)
@click.option("--state", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="The file of the positions.  [default: kqueue-collect-TOPIC.json]")  # fmt: skip
@click.option("--host", default=None, help="The header `host` of each record.  [default: this machine's name]")
@click.option("--codec", type=click.Choice(CODECS), default="none", show_default=True, help="Compression of batches.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0), metavar="SECONDS",
              help="End when the broker has not answered for this long.  [default: never]")  # fmt: skip
@bootstrap_option(waits=False)
def collect(files: tuple[str, ...], topic: str, **options: Any) -> None:
    """Follow FILEs and send each added line to a topic, until Ctrl-C.

    \b
      kqueue collect /var/log/app.log --topic logs
      kqueue collect '/var/log/app/*.log' --topic logs --from-beginning --codec zstd
      kqueue collect export.csv --topic rows --once

    FILE may be a pattern in quotes, so that files which appear later are followed too (compressed
    files are left out). Files may be rotated, truncated, removed and created again. The positions
    are saved in a file, so an agent that ended or was killed resumes there. Each record has the
    headers host, file, source and offset; source and offset identify the line. An unfinished or
    very long line is sent in parts, with the header part counted from 0.
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
    with stop_on_signal(stop.set):
        _run(files, topic, stop, _Options(**options))


@dataclass(frozen=True)
class _Options:
    """The options of the command."""

    from_beginning: bool
    once: bool
    interval_s: float
    lines_max: int
    key: str
    line_bytes_max: int
    partial_s: float
    state: Path | None
    host: str | None
    codec: str
    timeout_s: float | None
    bootstrap: str


def _run(files: tuple[str, ...], topic: str, stop: threading.Event, options: _Options) -> None:
    from kqueue.collect.agent import AgentOptions, CollectAgent, resume
    from kqueue.collect.line_sender import LineRejected
    from kqueue.collect.state_file import StateFile, StateUnusable

    state_file = StateFile(options.state or Path(f"kqueue-collect-{topic}.json"), topic)
    sender = _sender(topic, stop, options)
    tailer = _tailer(files, state_file, options)
    finished = False
    with Counter("lines sent", shown=sys.stderr.isatty()) as counter:
        try:
            with state_file.held():
                before = resume(tailer, state_file)
                if sender.check_topic():
                    finished = CollectAgent(
                        tailer,
                        sender,
                        state_file,
                        AgentOptions(options.interval_s, options.lines_max, options.once),
                        stop=stop,
                        show=counter.show,
                        delivered=_delivered(sender, before, options.bootstrap),
                    ).run()
        except (LineRejected, StateUnusable) as error:
            raise click.ClickException(str(error)) from None
        finally:
            tailer.close()
            sender.close()
    note = "" if finished else "; what was not confirmed is sent at the next start"
    click.echo(f"Sent {counted(sender.sent, 'line')} to {topic}{note}.", err=True)


def _sender(topic: str, stop: threading.Event, options: _Options) -> LineSender:
    from kqueue.collect.line_sender import LineSender

    return LineSender(
        topic,
        _BrokerAccess(topic, options),
        host=options.host or socket.gethostname(),
        key=options.key,
        stop=stop,
        tell=_tell,
        timeout_s=options.timeout_s,
    )


def _tailer(files: tuple[str, ...], state_file: StateFile, options: _Options) -> FileTailer:
    from kqueue.collect.file_tailer import FileTailer

    return FileTailer(
        [str(Path(file).absolute()) for file in files],
        line_bytes_max=options.line_bytes_max,
        partial_s=options.partial_s,
        now_s=monotonic_s,
        new_source=lambda: secrets.token_hex(8),
        tell=_tell,
        from_end=not (options.from_beginning or options.once),
        ignored=state_file.names(),
    )


class _BrokerAccess:
    """Connects by kafka-python; see `kqueue.collect.line_sender.BrokerAccess`."""

    def __init__(self, topic: str, options: _Options) -> None:
        self._topic = topic
        self._options = options

    def connect(self) -> KafkaProducer:
        from kafka import KafkaProducer

        from kqueue.collect.line_sender import BrokerUnreachable

        try:
            find_broker(self._options.bootstrap)
        except BrokerNotFound as error:
            raise BrokerUnreachable(error.message) from None
        return KafkaProducer(**_producer_config(self._options))

    def explain(self, error: BaseException) -> str:
        return explain(error)

    def topic_creation(self) -> TopicCreationNotice:
        return TopicCreationNotice(self._options.bootstrap, self._topic)


def _delivered(sender: LineSender, state: AgentState | None, bootstrap: str) -> Collection[DeliveredLine]:
    """Return the lines that a killed run had sent after it last saved its position.

    Sets `sender.ends` to the end offsets of the topic's partitions.
    """
    from kafka.errors import KafkaError

    from kqueue.collect.resume_dedup import find_delivered

    ends = None if state is None or state.stopped else dict(state.ends)
    sources = () if state is None else {position.source for position in state.positions}
    config = {
        "bootstrap_servers": bootstrap.split(","),
        "client_id": "kqueue-collect",
        "metrics_enabled": False,
        **client_arguments(),
    }
    try:
        delivered = find_delivered(config, sender.topic, ends, sources)
    except KafkaError as error:
        _tell(f"what was sent last can't be looked up ({explain(error)}); lines may come twice")
        sender.ends.update(ends or {})
        return ()
    if not delivered.complete:
        _tell("others have sent too much to find what was sent last; lines may come twice")
    sender.ends.update(delivered.ends)
    return delivered.arrived


def _producer_config(options: _Options) -> dict[str, Any]:
    from kqueue.collect import line_sender

    return {
        "bootstrap_servers": options.bootstrap.split(","),
        "client_id": "kqueue-collect",
        "bootstrap_timeout_ms": line_sender.CONNECT_TIMEOUT_MS,
        "max_block_ms": line_sender.CONNECT_TIMEOUT_MS,
        "delivery_timeout_ms": line_sender.DELIVERY_TIMEOUT_MS,
        "reconnect_backoff_max_ms": line_sender.RECONNECT_MS_MAX,
        "compression_type": None if options.codec == "none" else options.codec,
        "acks": "all",
        "enable_idempotence": True,
        "linger_ms": 5,
        "batch_size": line_sender.BATCH_BYTES,
        "max_request_size": max(1024 * KiB, options.line_bytes_max + 64 * KiB),
        "metrics_enabled": False,
        **client_arguments(),
    }


def _tell(sentence: str) -> None:
    if sys.stderr.isatty():  # the counter may have written to this line
        click.echo("\r\x1b[K", trusted(sys.stderr), nl=False)
    click.echo(sentence[:1000], err=True)
