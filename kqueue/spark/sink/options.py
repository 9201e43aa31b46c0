"""The options of the sink: the table, and the parsed result. No pyspark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kqueue.base.errors import InvalidTopic, PluginError
from kqueue.base.names import check_topic
from kqueue.client.options import ClientOptions
from kqueue.records.arrow.engine import ENGINES
from kqueue.records.codecs import CODECS
from kqueue.records.partitioners import PARTITIONERS
from kqueue.spark.errors import OptionError
from kqueue.spark.options import (
    CLIENTS_IGNORED,
    CLIENTS_REFUSED,
    Option,
    OptionTable,
    nonempty,
    one_of,
    security_of,
    truth,
    whole_number,
)

if TYPE_CHECKING:
    from kqueue.config.client_security import ClientSecurity

ALL_IN_SYNC = -1
ACKS = {"all": ALL_IN_SYNC, "-1": ALL_IN_SYNC, "1": 1, "0": 0}
IGNORES_KEYS = "sticky"
AT_LEAST_ONCE = "at-least-once"
EXACTLY_ONCE = "exactly-once"
TRANSACTIONAL = "transactional"
TRANSACTION_TIMEOUT_MS = 900_000
"""As transaction.max.timeout.ms of brokers by default."""
STAGING_PARTITIONS_MAX = 1_000
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
_APP_ID = re.compile(r"[a-zA-Z0-9._-]{1,100}")


def _number(least: int, most: int = INT_MAX) -> Callable[[str, str], int]:
    return whole_number(least, most)


def _level(codec: str) -> Option:
    levels = CODECS.get(codec).levels
    assert levels is not None

    def parse(text: str, option: str) -> int:
        is_default = text.strip() == str(levels.default)
        return levels.default if is_default else whole_number(levels.lowest, levels.highest)(text, option)

    return Option(f"kafka.compression.{codec}.level", parse, None, "both", f"With {codec}: how hard it tries.")


def _topic(text: str, option: str) -> str:
    try:
        return check_topic(text.strip())
    except InvalidTopic as error:
        raise OptionError(f"{option}: {error}") from None


def _partitioner(text: str, option: str) -> str:
    try:
        PARTITIONERS.find(nonempty(text, option))
    except PluginError as error:
        raise OptionError(f"{option}: {error}") from None
    return text.strip()


def _codec(text: str, option: str) -> str:
    try:
        CODECS.get(nonempty(text, option).lower())
    except PluginError as error:
        raise OptionError(f"{option}: {error}") from None
    return text.strip().lower()


def _app_id(text: str, option: str) -> str:
    if not _APP_ID.fullmatch(text.strip()):
        raise OptionError(f"{option}: expected up to 100 letters, digits, '.', '_' and '-', found {text!r:.200}")
    return text.strip()


OPTIONS = (
    Option("kafka.bootstrap.servers", nonempty, None, "both", "host:port of one or more brokers, with commas between."),
    Option("topic", _topic, None, "both", "Where all rows go; without it each row says so in its column topic."),
    Option(
        "partitioner",
        _partitioner,
        None,
        "both",
        "By name, or module:Class; without it each topic's own (kqueue.partitioner).",
    ),
    Option(
        "delivery",
        one_of(AT_LEAST_ONCE, EXACTLY_ONCE, TRANSACTIONAL),
        AT_LEAST_ONCE,
        "both",
        "What holds for rows when something is done again; transactional is the fast way to write each row once.",
    ),
    Option(
        "txnAppId",
        _app_id,
        None,
        "batch",
        "With exactly-once and transactional: whose writes these are, as for Delta; a stream has its query's id.",
    ),
    Option(
        "txnVersion",
        _number(0, LONG_MAX),
        None,
        "batch",
        "With exactly-once and transactional: the write's number, which rises; what was done is left.",
    ),
    Option(
        "stagingPartitions",
        _number(1, STAGING_PARTITIONS_MAX),
        4,
        "both",
        "With exactly-once: the partitions that batches are staged in.",
    ),
    Option(
        "encoder",
        one_of(*ENGINES),
        "auto",
        "both",
        "Loops over rows in plain Python, compiled (fast), or what is installed.",
    ),
    Option(
        "kafka.acks",
        one_of(*ACKS),
        "all",
        "both",
        "Which replicas must have a batch: all in-sync replicas, the leader, or none.",
    ),
    Option(
        "kafka.compression.type", _codec, None, "both", "Codec of the batches; without it the topic's own, or none."
    ),
    Option(
        "kafka.batch.size",
        _number(1),
        1_000_000,
        "both",
        "Bytes of a batch before compression, if the topic takes as much.",
    ),
    _level("gzip"),
    _level("lz4"),
    _level("zstd"),
    Option(
        "kafka.max.request.size",
        _number(1),
        None,
        "both",
        "Bytes of a batch at most, after compression too; a larger row is refused. Without it: what the topic takes.",
    ),
    Option(
        "kafka.partitioner.ignore.keys",
        truth,
        False,
        "both",
        "Spread rows without a look at their keys, as the partitioner sticky does.",
    ),
    Option("kafka.client.id", nonempty, "kqueue-spark", "both", "How brokers name us in their logs."),
    Option("kafka.delivery.timeout.ms", _number(1), 120_000, "both", "How long a broker that is away is waited for."),
    Option("kafka.request.timeout.ms", _number(1), 30_000, "both", "How long one answer is waited for."),
    Option(
        "kafka.transaction.timeout.ms",
        _number(1),
        TRANSACTION_TIMEOUT_MS,
        "both",
        "With transactional: how long a batch may take, with the time until a restart; brokers allow "
        "transaction.max.timeout.ms.",
    ),
)
IGNORED = (
    *CLIENTS_IGNORED,
    "checkpointLocation", "queryName", "includeHeaders",
    "kafka.buffer.memory", "kafka.enable.idempotence", "kafka.internal.auto.downgrade.txn.commit", "kafka.linger.ms",
    "kafka.max.block.ms", "kafka.max.in.flight.requests.per.connection", "kafka.metadata.max.idle.ms",
    "kafka.partitioner.adaptive.partitioning.enable", "kafka.partitioner.availability.timeout.ms", "kafka.retries",
)  # fmt: skip
"""Options of Spark and of Kafka's producer that are accepted without effect."""
REFUSED = {
    **CLIENTS_REFUSED,
    "path": "rows go to a broker, not to files: name it with kafka.bootstrap.servers, and call save() or "
    "start() without a path",
    "kafka.key.serializer": "keys are bytes or text; make them so with DataFrame operations",
    "kafka.value.serializer": "values are bytes or text; make them so with DataFrame operations",
    "kafka.partitioner.class": "there is no Java that could run it; choose one with the option partitioner",
    "kafka.transaction.two.phase.commit.enable": "use delivery=transactional",
    "kafka.transactional.id": "use delivery=transactional, which has ids of its own",
}
_ASYNC = "asyncprogresstrackingenabled"
TABLE = OptionTable(OPTIONS, IGNORED, REFUSED, prefix="asyncprogresstracking")


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The validated options. Can be pickled. `values`: by the options' own names.

    `security`: TLS and SASL; None: neither. `checkpoint`: of a stream; "": Spark chooses it. `repr`
    shows no secret.
    """

    streaming: bool
    values: Mapping[str, Any]
    security: ClientSecurity | None = None
    checkpoint: str = ""

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def topic(self) -> str | None:
        """The topic of all rows; None: rows name it."""
        name: str | None = self.values["topic"]
        return name

    @property
    def is_exactly_once(self) -> bool:
        """Return whether each row is written once: delivery is exactly-once or transactional."""
        return bool(self.values["delivery"] != AT_LEAST_ONCE)

    @property
    def is_transactional(self) -> bool:
        """Return whether delivery is transactional."""
        return bool(self.values["delivery"] == TRANSACTIONAL)

    @property
    def acks(self) -> int:
        """kafka.acks as in Produce requests."""
        return ACKS[self.values["kafka.acks"]]

    @property
    def partitioner(self) -> str | None:
        """The partitioner of all topics; None: each topic's own."""
        named: str | None = self.values["partitioner"]
        return IGNORES_KEYS if self.values["kafka.partitioner.ignore.keys"] else named

    def level(self, codec: str) -> int | None:
        """Return the compression level of a codec; None: its default."""
        level: int | None = self.values.get(f"kafka.compression.{codec}.level")
        return level

    @property
    def client(self) -> ClientOptions:
        """The options of a client for `kafka.bootstrap.servers`."""
        return ClientOptions(
            bootstrap=self["kafka.bootstrap.servers"],
            client_id=self["kafka.client.id"],
            timeout_ms=self["kafka.delivery.timeout.ms"],
            request_timeout_ms=self["kafka.request.timeout.ms"],
            security=self.security,
        )


def parse_options(given: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """Parse and validate the options of a write.

    Args:
        given: option names in any case, as Spark passes them.
    Raises: OptionError: unknown (the message offers the nearest name), invalid or contradictory.
    """
    values = TABLE.values(
        given,
        streaming=streaming,
        misplaced=lambda option: f"{option.name} is for batch writes only; a stream has its query's id",
    )
    if values["kafka.bootstrap.servers"] is None:
        raise OptionError("say where the broker is: kafka.bootstrap.servers=host:port")
    checkpoint = next((str(text) for name, text in given.items() if name.lower() == "checkpointlocation"), "")
    options = SinkOptions(streaming, values, security_of(given), checkpoint.removeprefix("file://"))
    try:
        _ = options.client
    except ValueError as error:
        raise OptionError(f"kafka.bootstrap.servers: {error}") from None
    if values["partitioner"] is not None and values["kafka.partitioner.ignore.keys"]:
        raise OptionError("partitioner and kafka.partitioner.ignore.keys contradict each other: give one of them")
    _check_delivery(options, given)
    return options


def _check_delivery(options: SinkOptions, given: Mapping[str, str]) -> None:
    names = {name.lower(): str(text).strip().lower() for name, text in given.items()}
    delivery = options["delivery"]
    if not options.is_exactly_once:
        for name in ("txnAppId", "txnVersion"):
            if options[name] is not None:
                raise OptionError(
                    f"{name} is for delivery={EXACTLY_ONCE} and {TRANSACTIONAL} only: other writes have no journal"
                )
        return
    if not options.streaming and None in (options["txnAppId"], options["txnVersion"]):
        raise OptionError(
            f"delivery={delivery} of a batch needs txnAppId and txnVersion, which say which write this is "
            "when it is begun again"
        )
    if options.acks != ALL_IN_SYNC:
        raise OptionError(
            f"delivery={delivery} needs kafka.acks=all: with less, rows may be lost that were answered for"
        )
    if names.get(_ASYNC) == "true":
        raise OptionError(
            f"delivery={delivery} and asyncProgressTrackingEnabled contradict each other: Spark may then change a batch"
        )
