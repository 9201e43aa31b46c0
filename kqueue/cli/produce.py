"""`kqueue produce`: lines become records."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from kqueue.base.clock import monotonic_s, wall_ms
from kqueue.base.errors import PluginError
from kqueue.base.text import counted
from kqueue.cli.broker_wait import await_broker, waiting
from kqueue.cli.completion import complete_topics
from kqueue.cli.connect import (
    addresses,
    bootstrap_option,
    checked_topic,
    client_access,
    client_arguments,
    explain,
    parse_name_values,
    plain_errors,
    require_client,
)
from kqueue.cli.direct_producer import DirectProducer, needs_direct_producer
from kqueue.cli.exit_status import INTERRUPTED
from kqueue.cli.formats import RecordToSend, parse_json, parse_line
from kqueue.cli.output import Counter
from kqueue.cli.partitioner_choice import follow_topic, load_partitioner
from kqueue.cli.topic_creation import TopicCreationNotice
from kqueue.client.kafka_python import closed_at_end, flush
from kqueue.records.partitioners import ClientPartitioner, as_client_partitioner

if TYPE_CHECKING:
    from kafka import KafkaProducer

METADATA_TIMEOUT_MS = 10_000
CLOSE_S = 30.0
BATCH_BYTES = 128 * 1024
LINGER_MS = 10
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@click.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "-f", "--file", "source", type=click.File("rb"), default="-", help="Read this file instead of standard input."
)
@click.option(
    "--format", "form", type=click.Choice(["lines", "json"]), default="lines", show_default=True, help="What a line is."
)
@click.option(
    "-k",
    "--key-separator",
    metavar="TEXT",
    help="The text between key and value in a line; without it, lines have no key.",
)
@click.option("--key", metavar="TEXT", help="The key of every record.")
@click.option(
    "-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header for every record; may be repeated."
)
@click.option("-p", "--partition", type=click.IntRange(min=0), metavar="N", help="Send everything to this partition.")
@click.option(
    "--ignore-partitions",
    is_flag=True,
    help="Leave out the partitions in JSON lines, for a topic with another number of them.",
)
@click.option(
    "--partitioner",
    metavar="NAME",
    help="What picks the partition: murmur2, sticky, round_robin, random, crc32, a plugin, or package.module:Class. "
    "Default: the topic's kqueue.partitioner.",
)
@click.option(
    "--codec", type=click.Choice(CODECS), default="none", show_default=True, help="How batches are compressed."
)
@click.option(
    "--acks",
    type=click.Choice(["0", "1", "all"]),
    default="all",
    show_default=True,
    help="Which confirmation to wait for.",
)
@bootstrap_option
def produce(
    topic: str,
    source: BinaryIO,
    form: str,
    key_separator: str | None,
    key: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    ignore_partitions: bool,
    partitioner: str | None,
    codec: str,
    acks: str,
    bootstrap: str,
) -> None:
    """Send each line of standard input (or of a file) to TOPIC as a record.

    \b
      echo hello | kqueue produce orders
      echo '{"total": 12}' | kqueue produce orders --key customer-7
      kqueue produce orders --file orders.txt --key-separator : --codec zstd
      kqueue consume orders --from-beginning -e --format json | kqueue produce copy --format json

    A topic's kqueue.partitioner picks the partitions, so that all producers agree; `kqueue plugins`
    lists the installed ones.

    A JSON line is an object with "value" and optionally "key", "headers", "partition" and
    "timestamp", as `kqueue consume --format json` writes it; a timestamp of -1 is none. A value of
    null deletes its key from a compacted topic. The pipe above copies a topic without a loss, but
    for offsets and LogAppendTime. --ignore-partitions lets the partitioner choose.
    """
    checked_topic(topic)
    require_client()
    partitioner_slot = as_client_partitioner() if partitioner is None else load_partitioner(partitioner)
    options = _client_options(bootstrap, codec, acks, partitioner_slot, interactive=source.isatty())
    addresses(bootstrap)
    if key is not None and key_separator:
        raise click.UsageError("--key and --key-separator exclude each other")
    shared = RecordToSend(
        None,
        None if key is None else key.encode(),
        tuple((name, value.encode()) for name, value in parse_name_values(headers, "--header")),
        partition,
    )
    from kafka import KafkaProducer

    with plain_errors(bootstrap):
        with waiting(bootstrap):
            response_ms = await_broker(bootstrap, client_access().timeout_s)
            watch = TopicCreationNotice(bootstrap, topic)
            producer = KafkaProducer(**options, bootstrap_timeout_ms=response_ms)
        with closed_at_end(producer, CLOSE_S):
            sender = _RecordSender(producer, topic, shared, ignore_partitions=ignore_partitions)
            sender.direct = DirectProducer(bootstrap, topic, codec, acks, sender.refuse)
            if source.isatty():
                click.echo(f"Each line goes to {topic} as you end it; Ctrl-D ends.", err=True)
            sender.check_topic(watch)
            if partitioner is None and partition is None:
                follow_topic(partitioner_slot, bootstrap, topic)
            with contextlib.closing(sender.direct):
                sender.run(_records(source, form, key_separator))
    sender.report()


def _client_options(
    bootstrap: str, codec: str, acks: str, partitioner_slot: ClientPartitioner, *, interactive: bool
) -> dict[str, Any]:
    return {
        "bootstrap_servers": bootstrap.split(","),
        "client_id": "kqueue-produce",
        "max_block_ms": METADATA_TIMEOUT_MS,
        "compression_type": None if codec == "none" else codec,
        "acks": acks if acks == "all" else int(acks),
        "enable_idempotence": acks == "all",
        "linger_ms": 0 if interactive else LINGER_MS,
        "batch_size": BATCH_BYTES,
        "metrics_enabled": False,
        "partitioner": partitioner_slot,
        **client_arguments(),
    }


def _records(source: BinaryIO, form: str, separator: str | None) -> Iterator[RecordToSend]:
    """Yield the records in the lines of `source`. Raises ClickException: names the invalid line."""
    separator_bytes = separator.encode() if separator else None
    for number, line in enumerate(source, start=1):
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        if form == "json" and not text.strip():
            continue
        try:
            yield parse_json(text) if form == "json" else parse_line(text, separator_bytes)
        except ValueError as error:
            raise click.ClickException(f"line {number} can't be sent: {error}" + _sent_before(number - 1)) from None


def _sent_before(count: int) -> str:
    return f" (the records of the {counted(count, 'line')} before it were sent)" if count else ""


class _RecordSender:
    """One run of `produce`: counts sent and refused records."""

    direct: DirectProducer

    def __init__(
        self, producer: KafkaProducer, topic: str, shared: RecordToSend, *, ignore_partitions: bool = False
    ) -> None:
        self.producer = producer
        self.topic = topic
        self.shared = shared
        self.partition = shared.partition
        self.ignore_partitions = ignore_partitions
        self.partitions: frozenset[int] = frozenset()
        self.sent = 0
        self.refused = 0
        self.reason: BaseException | None = None
        self.interrupted = False

    def check_topic(self, watch: TopicCreationNotice) -> None:
        """Wait until the client knows the topic, which the broker may create now.

        Raises: ClickException: the topic does not exist, or lacks the partition.
        """
        from kafka.errors import KafkaTimeoutError

        try:
            partitions = self.producer.partitions_for(self.topic)
        except KafkaTimeoutError:
            raise click.ClickException(
                f"there is no topic {self.topic!r}, and the broker does not create topics by itself; create it with: "
                f"kqueue topics create {self.topic}{watch.nearest}"
            ) from None
        self.partitions = frozenset(partitions)
        watch.print_if_created(len(partitions))
        if self.partition is not None and self.partition not in partitions:
            raise click.BadParameter(
                f"{self.topic} has the partitions 0 to {len(partitions) - 1}", param_hint="--partition"
            )

    def run(self, records: Iterator[RecordToSend]) -> None:
        started = monotonic_s()
        with Counter("records sent", shown=sys.stderr.isatty() and not sys.stdin.isatty()) as counter:
            try:
                for record in records:
                    self._send(record)
                    counter.show(self.sent)
            except KeyboardInterrupt:
                self.interrupted = True
            finally:
                flush(self.producer)
                self.direct.flush()
        self.seconds = monotonic_s() - started

    def _send(self, record: RecordToSend) -> None:
        record = self._completed(record)
        try:
            if needs_direct_producer(record):
                self._send_directly(record)
                return
            self.direct.flush()  # the order within a partition
            future = self.producer.send(
                self.topic,
                record.value,
                record.key,
                headers=list(record.headers),
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
            )
        except (ValueError, PluginError) as error:
            raise click.ClickException(f"record {self.sent + 1} can't be sent: {error}") from None
        self.sent += 1
        future.add_errback(lambda error: self.refuse(1, error))

    def _completed(self, record: RecordToSend) -> RecordToSend:
        """Return the record with what the options say of all. Raises: ClickException."""
        partition = None if self.ignore_partitions else record.partition
        if self.partition is not None:
            partition = self.partition
        elif partition is not None and partition not in self.partitions:
            raise click.ClickException(
                f"record {self.sent + 1} can't be sent: it names the partition {partition}, and {self.topic} has 0 to "
                f"{len(self.partitions) - 1}; --ignore-partitions lets the partitioner choose"
            )
        return record._replace(
            key=record.key if self.shared.key is None else self.shared.key,
            headers=(*self.shared.headers, *record.headers),
            partition=partition,
        )

    def _send_directly(self, record: RecordToSend) -> None:
        if self.direct.is_empty:
            flush(self.producer)  # the order within a partition
        partition = record.partition
        if partition is None:
            choose: ClientPartitioner = self.producer.config["partitioner"]
            partition = choose(record.key, self.partitions, None)
        timestamp_ms = wall_ms() if record.timestamp_ms is None else record.timestamp_ms
        self.direct.add(record, partition, timestamp_ms)
        self.sent += 1

    def refuse(self, count: int, error: BaseException) -> None:
        """Note that the broker refused `count` records."""
        self.refused += count
        self.reason = self.reason or error

    def report(self) -> None:
        """Print one line on standard error.

        Raises: ClickException: records were refused, with the first reason. Exit: after Ctrl-C.
        """
        if self.reason is not None:
            raise click.ClickException(
                f"{self.refused:,} of {counted(self.sent, 'record')} refused: {explain(self.reason)}"
            )
        click.echo(f"Sent {counted(self.sent, 'record')} to {self.topic} in {self.seconds:.1f} s.", err=True)
        if self.interrupted:
            raise click.exceptions.Exit(INTERRUPTED)
