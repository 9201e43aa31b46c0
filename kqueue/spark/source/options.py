"""The options of the source: the table, and the parsed result. No pyspark."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from kqueue.base import events
from kqueue.base.patterns import compile_pattern
from kqueue.client.options import ClientOptions
from kqueue.client.topic_partition import TopicPartition
from kqueue.records.arrow.engine import ENGINES, EngineName
from kqueue.spark.errors import OptionError
from kqueue.spark.offsets import EARLIEST, LATEST, OFFSET_KEYWORDS, OffsetBound, parse_assigned, parse_listed
from kqueue.spark.options import (
    CLIENTS_IGNORED,
    CLIENTS_REFUSED,
    STAGING_PREFIX,
    Option,
    OptionTable,
    nonempty,
    one_of,
    security_of,
    truth,
)
from kqueue.spark.value_formats.options import VALUE_OPTIONS
from kqueue.tier.formats.keys import TIER_KEY
from kqueue.tier.stores.address import location_of

if TYPE_CHECKING:
    from kqueue.config.client_security import ClientSecurity

logger = logging.getLogger("kqueue.spark")
Isolation = Literal["read_uncommitted", "read_committed"]
ISOLATIONS: tuple[str, ...] = get_args(Isolation)
MiB = 1024 * 1024
API_TIMEOUT = "kafka.default.api.timeout.ms"
FIRST_ANSWER_MS = 10_000
"""A wrong address is reported after this time, unless the query says how long it waits."""
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_CLOUD = re.compile(r"(?:s3|gs|az)://", re.IGNORECASE)
_DURATION = re.compile(r"\s*(\d{1,15})\s*([a-z]*)\s*")


def _number(least: int) -> Callable[[str, str], int]:
    def parse(text: str, option: str) -> int:
        if not re.fullmatch(r"\s*\d{1,18}\s*", text, re.ASCII) or int(text) < least:
            raise OptionError(f"{option}: expected a whole number from {least} on, found {text!r}")
        return int(text)

    return parse


def _duration(text: str, option: str) -> int:
    match = _DURATION.fullmatch(text.lower())
    if match is None or (match[2] or "ms") not in _UNITS_MS:
        raise OptionError(f"{option}: expected a time such as 15m, 30s or 500ms, found {text!r}")
    return int(match[1]) * _UNITS_MS[match[2] or "ms"]


def _names(text: str, option: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise OptionError(f"{option}: no topic is named")
    return names


def _pattern(text: str, option: str) -> str:
    try:
        compile_pattern(nonempty(text, option))
    except re.error as error:
        raise OptionError(f"{option}: {text!r} is no regular expression: {error}") from None
    return text.strip()


OPTIONS = (
    Option("kafka.bootstrap.servers", nonempty, None, "both", "host:port of one or more brokers, with commas between."),
    Option(
        "path",
        nonempty,
        None,
        "both",
        "A data folder of kqueue or Kafka, or of one partition, without a broker; or a tier, with brokers or without.",
    ),
    Option("subscribe", _names, None, "both", "Topics, with commas between."),
    Option(
        "subscribePattern",
        _pattern,
        None,
        "both",
        "A regular expression that is found in names of topics; new ones join a stream.",
    ),
    Option("assign", parse_assigned, None, "both", 'Partitions: {"orders":[0,1]}.'),
    Option(
        "startingOffsets",
        nonempty,
        None,
        "both",
        'earliest (of batches), latest (of streams), or {"orders":{"0":12,"1":-2}}.',
    ),
    Option(
        "startingTimestamp", _number(0), None, "both", "Begin with the first record from this time on, ms since 1970."
    ),
    Option(
        "startingOffsetsByTimestamp",
        parse_listed,
        None,
        "both",
        'The same for each partition: {"orders":{"0":1700000000000}}.',
    ),
    Option(
        "startingOffsetsByTimestampStrategy", one_of("error", "latest"), "error", "both", "Where no record is as late."
    ),
    Option("endingOffsets", nonempty, None, "batch", "latest, or as startingOffsets, without -2."),
    Option(
        "endingTimestamp", _number(0), None, "batch", "End before the first record from this time on, ms since 1970."
    ),
    Option("endingOffsetsByTimestamp", parse_listed, None, "batch", "The same for each partition."),
    Option(
        "maxOffsetsPerTrigger", _number(1), None, "both", "Of streams: offsets in one batch at most, shared out by lag."
    ),
    Option(
        "minOffsetsPerTrigger",
        _number(1),
        None,
        "both",
        "Of streams: wait until so many are there, or maxTriggerDelay has passed.",
    ),
    Option(
        "maxTriggerDelay",
        _duration,
        900_000,
        "both",
        "How long minOffsetsPerTrigger may hold a batch back: 15m, 30s, 500ms.",
    ),
    Option("minPartitions", _number(1), None, "both", "Splits to make at least, as far as there are offsets."),
    Option("maxRecordsPerPartition", _number(1), None, "both", "Offsets in one split at most."),
    Option(
        "splitBytes",
        _number(1),
        64 * MiB,
        "both",
        "Partitions with less than this share splits of about this size; 1: none do.",
    ),
    Option("failOnDataLoss", truth, True, "both", "Fail when records are gone that were to be read, or go on."),
    Option("includeHeaders", truth, False, "both", "Have a column of headers."),
    *VALUE_OPTIONS,
    Option(
        "groupId",
        nonempty,
        None,
        "stream",
        "A consumer group to commit what is done to, so that its lag shows; nothing begins there.",
    ),
    Option(
        "includeActiveSegment",
        one_of("auto", "true", "false"),
        "auto",
        "both",
        "A path's last segments; auto: after a clean stop.",
    ),
    Option(
        "decoder",
        one_of(*ENGINES),
        "auto",
        "both",
        "Loops in plain Python, compiled (fast), or whichever is quicker (auto).",
    ),
    Option(
        "kafka.isolation.level",
        one_of(*ISOLATIONS),
        "read_uncommitted",
        "both",
        "read_committed hides aborted transactions.",
    ),
    Option("kafka.client.id", nonempty, "kqueue-spark", "both", "How brokers name us in their logs."),
    Option(
        API_TIMEOUT,
        _number(1),
        60_000,
        "both",
        "How long a broker that is away is waited for; without it a query begins only if one answers within 10 s.",
    ),
    Option("kafka.request.timeout.ms", _number(1), 30_000, "both", "How long one answer is waited for."),
    Option(
        "kafka.max.partition.fetch.bytes", _number(1), 16 * MiB, "both", "Bytes of one fetch; a batch may be larger."
    ),
)
IGNORED = (
    *CLIENTS_IGNORED,
    "groupIdPrefix", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
    "kafka.allow.auto.create.topics", "kafka.auto.commit.interval.ms", "kafka.check.crcs", "kafka.client.rack",
    "kafka.exclude.internal.topics", "kafka.fetch.max.bytes", "kafka.fetch.max.wait.ms", "kafka.fetch.min.bytes",
    "kafka.group.id", "kafka.group.instance.id", "kafka.group.protocol", "kafka.group.remote.assignor",
    "kafka.heartbeat.interval.ms", "kafka.internal.leave.group.on.close",
    "kafka.internal.throw.on.fetch.stable.offset.unsupported", "kafka.max.poll.interval.ms", "kafka.max.poll.records",
    "kafka.partition.assignment.strategy", "kafka.session.timeout.ms", "kafka.share.acknowledgement.mode",
    "kafka.share.acquire.mode",
)  # fmt: skip
"""Options of Spark's Kafka source that are accepted without effect, so queries need no changes."""
REFUSED = {
    **CLIENTS_REFUSED,
    "kafka.auto.offset.reset": "use startingOffsets",
    "kafka.enable.auto.commit": "Spark keeps its offsets in its checkpoint; groupId shows them to others",
    "kafka.key.deserializer": "keys are binary; decode them with DataFrame operations",
    "kafka.value.deserializer": "values are binary, or columns by valueFormat",
}
TRIGGERS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
"""Batch queries ignore these with a log message, as Spark's Kafka source does."""
TABLE = OptionTable(OPTIONS, IGNORED, REFUSED)


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """The selected partitions. At most one value is not None; none: all topics of a path."""

    names: tuple[str, ...] | None = None
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] | None = None

    def matches(self, topic: str) -> bool:
        """Return whether the pattern, or one of all topics, is found in a name.

        Topics in which the sink stages batches are left out.
        """
        return not topic.startswith(STAGING_PREFIX) and re.search(self.pattern or "", topic) is not None

    def __str__(self) -> str:
        if self.assigned is not None:
            return f"assign {', '.join(map(str, self.assigned))}"
        return f"subscribe {', '.join(self.names)}" if self.names else f"subscribePattern {self.pattern or '.*'}"


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The validated options. Can be pickled. `values`: by the options' own names.

    `security`: TLS and SASL; None: neither. `first_answer_ms`: how long a query waits for a broker
    before it begins. `tier`: the URL of the tier that is read, of which `path` is what messages may
    show; None: `path` is a folder, or there is none. `repr` shows no secret.
    """

    topics: TopicSelection
    starting: OffsetBound
    ending: OffsetBound
    streaming: bool
    values: Mapping[str, Any]
    security: ClientSecurity | None = None
    first_answer_ms: int = FIRST_ANSWER_MS
    tier: str | None = field(default=None, repr=False)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def isolation(self) -> Isolation:
        """kafka.isolation.level."""
        return cast(Isolation, self["kafka.isolation.level"])

    @property
    def engine(self) -> EngineName:
        """The decoder."""
        return cast(EngineName, self["decoder"])

    @property
    def fail_on_data_loss(self) -> bool:
        """failOnDataLoss."""
        return bool(self["failOnDataLoss"])

    @property
    def client(self) -> ClientOptions:
        """The options of a client for `kafka.bootstrap.servers`."""
        return ClientOptions(
            bootstrap=self["kafka.bootstrap.servers"],
            client_id=self["kafka.client.id"],
            timeout_ms=self[API_TIMEOUT],
            request_timeout_ms=self["kafka.request.timeout.ms"],
            security=self.security,
        )


def parse_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Parse and validate the options of a query.

    Args:
        given: option names in any case, as Spark passes them.
    Raises: OptionError: unknown (the message offers the nearest name), invalid, for the other kind
        of query, or contradictory.
    """
    kind = "batch queries" if streaming else "streams"
    values = TABLE.values(
        given,
        streaming=streaming,
        misplaced=lambda option: f"{option.name} is for {kind} only, and this is no such query",
    )
    _check_triggers(values, given, streaming=streaming)
    tier = _check_way(values)
    topics = _topics(values)
    starting = _bound(values, "starting", "latest" if streaming else "earliest")
    ending = _bound(values, "ending", "latest")
    if not streaming and _has(starting, LATEST):
        raise OptionError(
            f"{starting.option}: a batch query can't begin at the end (latest, -1); there would be nothing to read"
        )
    if _has(ending, EARLIEST):
        raise OptionError(f"{ending.option}: a query can't end at the beginning (earliest, -2)")
    _check_client(values)
    is_given = any(name.lower() == API_TIMEOUT for name in given)
    first_answer_ms = values[API_TIMEOUT] if is_given else FIRST_ANSWER_MS
    return SourceOptions(topics, starting, ending, streaming, values, security_of(given), first_answer_ms, tier)


def _check_triggers(values: Mapping[str, Any], given: Mapping[str, str], *, streaming: bool) -> None:
    names = {name.lower() for name in given}
    for name in TRIGGERS:
        if name.lower() in names and not streaming:
            events.SPARK_OPTION_WITHOUT_EFFECT.log(
                logger, "%s has no meaning in a batch query, which reads all there is", option=name
            )
    least, most = values["minOffsetsPerTrigger"], values["maxOffsetsPerTrigger"]
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"minOffsetsPerTrigger is {least}, and has to be at most maxOffsetsPerTrigger, which is {most}"
        )


def _check_way(values: dict[str, Any]) -> str | None:
    """Make the path absolute, or free of secrets; return the URL of a tier."""
    servers: str | None = values["kafka.bootstrap.servers"]
    path: str | None = values["path"]
    if servers is None and path is None:
        raise OptionError("say where the data is: kafka.bootstrap.servers=host:port, or path=folder")
    if values["groupId"] is not None and servers is None:
        raise OptionError("groupId needs a broker to commit to, and path has none")
    if path is None:
        return None
    if _CLOUD.match(path) is not None:
        values["path"] = location_of(path)
        return path
    values["path"] = _local(path)
    if (Path(values["path"]) / TIER_KEY).is_file():
        return Path(values["path"]).as_uri()
    if servers is not None:
        raise OptionError(
            f"kafka.bootstrap.servers and path are two ways to the data: give one of them; both are for a tier, and "
            f"{values['path']} has no {TIER_KEY}"
        )
    return None


def _local(path: str) -> str:
    """Return an absolute path, because executors may have another working folder.

    Raises: OptionError: not a path of a local file system.
    """
    scheme = re.match(r"([a-zA-Z][a-zA-Z0-9+.-]*):", path)
    if scheme is not None and scheme[1].lower() == "file":
        path = re.sub(r"^file:(//(?=/))?", "", path, flags=re.IGNORECASE)
    elif scheme is not None:
        raise OptionError(
            f"path: {location_of(path)!r} is not on a local file system, and no tier either: expected a folder, or "
            f"s3://, gs:// or az:// and where the tier is"
        )
    return str(Path(path).expanduser().resolve())


def _topics(values: Mapping[str, Any]) -> TopicSelection:
    given = [name for name in ("subscribe", "subscribePattern", "assign") if values[name] is not None]
    if len(given) > 1:
        raise OptionError(f"{' and '.join(given)} contradict each other: give one of them")
    if not given and values["path"] is None:
        raise OptionError("say what to read: subscribe, subscribePattern or assign")
    return TopicSelection(values["subscribe"], values["subscribePattern"], values["assign"])


def _bound(values: Mapping[str, Any], which: str, default: str) -> OffsetBound:
    """Return the first of three options that is set, in the order of Spark's source."""
    stamp, by_stamp, offsets = f"{which}Timestamp", f"{which}OffsetsByTimestamp", f"{which}Offsets"
    if values[stamp] is not None:
        return OffsetBound(stamp, time=values[stamp])
    if values[by_stamp] is not None:
        if any(time < 0 for time in values[by_stamp].values()):
            raise OptionError(f"{by_stamp}: a time is in ms since 1970, and never negative")
        return OffsetBound(by_stamp, times=values[by_stamp])
    text = values[offsets] or default
    if text.lower() in OFFSET_KEYWORDS:
        return OffsetBound(offsets, everywhere=OFFSET_KEYWORDS[text.lower()])
    if not text.startswith("{"):
        raise OptionError(f'{offsets}: expected earliest, latest or {{"topic":{{"0":12}}}}, found {text!r}')
    return OffsetBound(offsets, listed=parse_listed(text, offsets))


def _has(bound: OffsetBound, word: int) -> bool:
    return bound.everywhere == word or (bound.listed is not None and word in bound.listed.values())


def _check_client(values: Mapping[str, Any]) -> None:
    servers = values["kafka.bootstrap.servers"]
    if servers is not None:
        try:
            ClientOptions(bootstrap=servers)
        except ValueError as error:
            raise OptionError(f"kafka.bootstrap.servers: {error}") from None
