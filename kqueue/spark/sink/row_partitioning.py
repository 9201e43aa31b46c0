"""Assigns rows to partitions. No pyspark; needs pyarrow and NumPy."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kqueue.base.config_resources import ResourceType
from kqueue.base.errors import PluginError
from kqueue.base.names import check_topic, did_you_mean
from kqueue.client import Client, TopicPartition
from kqueue.client.errors import BrokerRefused
from kqueue.records.arrow import partitions_of
from kqueue.records.arrow.engine import EngineName
from kqueue.records.partitioners import DEFAULT, PARTITIONERS, Partitioner, make_partitioner
from kqueue.spark.errors import OptionError, RowRefused
from kqueue.spark.sink.options import SinkOptions
from kqueue.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    import pyarrow as pa

PARTITIONER = "kqueue.partitioner"
MAX_BATCH = "max.message.bytes"
COMPRESSION = "compression.type"
MAX_BATCH_DEFAULT = 1_048_588
_SHORT = 2**16
_NOT_THERE = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}


@dataclass(frozen=True, slots=True)
class TargetTopic:
    """A topic that rows are written to.

    `open`: its partitions with a leader. `batch_bytes_max`: its max.message.bytes.
    """

    name: str
    count: int
    open: tuple[int, ...]
    batch_bytes_max: int
    codec: str
    partitioner_name: str
    partitioner: Partitioner


class TargetTopics:
    """The target topics, each looked up once.

    Thread: one at a time.
    """

    def __init__(self, client: Client, options: SinkOptions, rng: random.Random) -> None:
        self._client = client
        self._options = options
        self._rng = rng
        self._known: dict[str, TargetTopic] = {}

    def get(self, name: str) -> TargetTopic:
        """Return a topic.

        Raises: RowRefused: no such topic (the message offers the nearest name), or its partitioner
            is not installed. ClientError.
        """
        if name not in self._known:
            self._known[name] = self._ask(name)
        return self._known[name]

    def _ask(self, name: str) -> TargetTopic:
        check_topic(name)
        try:
            metadata = self._client.metadata([name]).topics[name]
        except BrokerRefused as error:
            if error.code not in _NOT_THERE:
                raise
            raise RowRefused(missing_topic(self._client, name)) from None
        settings = self._settings(name)
        partitioner_name, partitioner = self._partitioner(name, settings.get(PARTITIONER))
        codec = settings.get(COMPRESSION, "producer")
        return TargetTopic(
            name,
            len(metadata.partitions),
            tuple(index for index, one in metadata.partitions.items() if one.leader >= 0),
            int(settings.get(MAX_BATCH, MAX_BATCH_DEFAULT)),
            self._options["kafka.compression.type"] or ("none" if codec in ("producer", "uncompressed") else codec),
            partitioner_name,
            partitioner,
        )

    def _settings(self, name: str) -> dict[str, str]:
        """Return the topic's settings; empty for users who may write, but not see settings."""
        try:
            configs = self._client.configs(ResourceType.TOPIC, [name], [PARTITIONER, MAX_BATCH, COMPRESSION])[name]
        except BrokerRefused as error:
            if error.code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise
            return {}
        return {key: one.value for key, one in configs.items() if one.value is not None}

    def _partitioner(self, topic: str, of_topic: str | None) -> tuple[str, Partitioner]:
        asked = self._options.partitioner
        if asked is not None:
            return asked, PARTITIONERS.find(asked)(self._rng)
        name = of_topic or DEFAULT
        try:
            return name, make_partitioner(name, self._rng)
        except PluginError as error:
            raise RowRefused(
                f"topic {topic!r} has the partitioner {name!r:.100} ({PARTITIONER}), which can't be used here: "
                f"{error}. "
                "Install what brings it where Spark's workers run, or choose another with the option partitioner"
            ) from None


def missing_topic(client: Client, name: str) -> str:
    """Return the message for a missing topic."""
    there = [topic for topic, one in client.metadata().topics.items() if not one.is_internal]
    return f"there is no topic {name!r} on {client.options.bootstrap}{did_you_mean(name, there)}; create it first"


def check_target(options: SinkOptions) -> None:
    """Look up the target topic before the write begins. Raises: as `TargetTopics.get`."""
    with Client(options.client) as client:
        if options.topic is None:
            client.metadata([])
        else:
            try:
                TargetTopics(client, options, random.Random()).get(options.topic)
            except RowRefused as error:
                raise OptionError(f"topic: {error}") from None


def partition_rows(
    target: TargetTopic, rows: pa.RecordBatch, engine: EngineName = "auto"
) -> list[tuple[TopicPartition, pa.RecordBatch]]:
    """Return the rows of each partition, in order.

    Raises: RowRefused: a row names a partition that does not exist.
    """
    import numpy as np
    import pyarrow as pa

    chosen = _partitions(target, rows, engine)
    counts = np.bincount(chosen)
    partitions = counts.nonzero()[0].tolist()
    if len(partitions) == 1:
        return [(TopicPartition(target.name, partitions[0]), rows)]
    order = np.argsort(
        chosen.astype(np.uint16) if target.count <= _SHORT else chosen, kind="stable"
    )  # a radix sort for short numbers
    sorted_rows, start, parts = rows.take(pa.array(order)), 0, []
    for index in partitions:
        parts.append((TopicPartition(target.name, index), sorted_rows.slice(start, int(counts[index]))))
        start += int(counts[index])
    return parts


def _partitions(target: TargetTopic, rows: pa.RecordBatch, engine: EngineName) -> Any:
    import numpy as np
    import pyarrow.compute as pc

    names = rows.schema.names
    given = rows.column("partition") if "partition" in names else None
    if given is None or given.null_count == len(given):
        return _choose(target, rows, engine)
    lowest, highest = pc.min_max(given).as_py().values()
    if lowest < 0 or highest >= target.count:
        wrong = lowest if lowest < 0 else highest
        raise RowRefused(
            f"a row asks for partition {wrong} of topic {target.name!r}, which has 0 to {target.count - 1}"
        )
    partitions = np.array(pc.fill_null(given, -1).to_numpy(zero_copy_only=False), np.int64)
    if given.null_count:
        free = partitions < 0
        partitions[free] = _choose(target, rows.filter(pc.is_null(given)), engine)
    return partitions


def _choose(target: TargetTopic, rows: pa.RecordBatch, engine: EngineName) -> Any:
    """Return the partitioner's choice for each row."""
    import pyarrow as pa

    keys = rows.column("key") if "key" in rows.schema.names else pa.nulls(rows.num_rows)
    return partitions_of(
        target.partitioner,
        target.count,
        keys=keys,
        values=rows.column("value"),
        available=target.open,
        topic=target.name,
        engine=engine,
    )
