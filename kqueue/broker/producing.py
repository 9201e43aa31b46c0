"""What a producer sends, on its way into a partition: converted if it is old, checked by the topic's rules, appended."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from kqueue.base.errors import InvalidRecord, TransactionsNotServed
from kqueue.base.settings import TopicConfig
from kqueue.broker.partition import Partition
from kqueue.log.log import Appended
from kqueue.records.batch import BatchHeader, iter_records, read_header
from kqueue.records.builder import BatchBuilder
from kqueue.records.codecs import CODECS
from kqueue.records.legacy import up_convert
from kqueue.records.validate import Level, Rules, check_produced

PRODUCE_VERSION_BATCHES = 3
"""From here on each partition gets exactly one batch of magic 2; before, message sets of any format."""
CODEC_OF_PRODUCER = "producer"

Checked = tuple[memoryview, BatchHeader]


class Intake:
    """How a topic of one configuration takes records. Made once for each, by `intake_of`."""

    def __init__(self, config: TopicConfig) -> None:
        codec = {"uncompressed": "none"}.get(config["compression.type"], config["compression.type"])
        self._codec = None if codec == CODEC_OF_PRODUCER else CODECS.get(codec)
        level = f"compression.{codec}.level"
        self._level: int | None = config[level] if level in config.broker.catalog.topic else None
        self.rules = Rules(
            level=Level(config["kqueue.records.validation"]),
            max_batch_bytes=config["max.message.bytes"],
            keys_required="compact" in config["cleanup.policy"],
            log_append_time=config["message.timestamp.type"] == "LogAppendTime",
            before_max_ms=config["message.timestamp.before.max.ms"],
            after_max_ms=config["message.timestamp.after.max.ms"],
            limit_bytes=config.broker["kqueue.max.decompressed.bytes"],
        )

    def append(self, partition: Partition, records: memoryview | None, *, now_ms: int, produce_version: int) -> Appended:
        """Append what one Produce request brought for one partition; offsets are written into `records`.

        Returns: for a message set of several batches, the first's base offset with the last's end.
        Raises: what `check_produced`, `up_convert` and `Partition.append` raise. Nothing was appended if a check failed.
        """
        if records is None or not len(records):
            raise InvalidRecord("expected records for the partition, found none")
        if produce_version < PRODUCE_VERSION_BATCHES:
            return self._append_old(partition, records, now_ms, produce_version)
        return partition.append(*self._check(records, now_ms, produce_version))

    def _append_old(self, partition: Partition, records: memoryview, now_ms: int, produce_version: int) -> Appended:
        batches = up_convert(records, max_batch_bytes=self.rules.max_batch_bytes, limit_bytes=self.rules.limit_bytes)
        checked = [self._check(memoryview(batch), now_ms, produce_version) for batch in batches]
        appended = [partition.append(batch, header) for batch, header in checked]
        return appended[-1]._replace(base_offset=appended[0].base_offset)

    def _check(self, batch: memoryview, now_ms: int, produce_version: int) -> Checked:
        header = check_produced(batch, self.rules, now_ms=now_ms, produce_version=produce_version)
        if header.is_transactional:
            raise TransactionsNotServed("")
        if self._codec is None or header.codec_id == self._codec.id:
            return batch, header
        return self._recompressed(batch, header)

    def _recompressed(self, batch: memoryview, header: BatchHeader) -> Checked:
        """The same batch under the topic's own codec."""
        assert self._codec is not None
        builder = BatchBuilder(
            self._codec.name,
            self._level,
            producer_id=header.producer_id,
            epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.is_transactional,
        )
        for record in iter_records(batch, limit_bytes=self.rules.limit_bytes):
            builder.append(record.timestamp, record.key, record.value, record.headers)
        made = memoryview(builder.build())
        return made, read_header(made)


def intake_of(config: TopicConfig) -> Intake:
    """The intake of topics with this configuration, which is never changed in place."""
    intake = _INTAKES.get(config)
    if intake is None:
        intake = _INTAKES[config] = Intake(config)
    return intake


_INTAKES: WeakKeyDictionary[TopicConfig, Intake] = WeakKeyDictionary()
