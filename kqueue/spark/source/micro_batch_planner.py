"""Plans the micro-batches of a stream: offsets, ranges and commits. No pyspark.

Spark logs a batch's end offset before it runs the batch. If a query stops before its first batch is
done, Spark asks for the initial offset again, and `latest` then selects another offset. Therefore
the end offset of a first batch carries its beginning (`offsets.BEGIN`). If the start is not a fixed
offset, the first batch is planned at once, possibly empty, so that the checkpoint records the
start.

Offsets are valid only for one topic, not for a recreated topic of the same name. So they carry the
topic ids (`offsets.IDS`) where the broker or folder reports them. Offsets without ids, for example
of older checkpoints, are compared as numbers only.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping

from kqueue.base import events
from kqueue.base.clock import monotonic_s
from kqueue.client.errors import ClientError
from kqueue.client.topic_partition import TopicPartition
from kqueue.spark.offsets import BEGIN, IDS, JsonObject, Offsets, from_json, ids_of, plain, to_json
from kqueue.spark.source.offset_resolver import splits, starting_offsets
from kqueue.spark.source.options import SourceOptions
from kqueue.spark.source.reader_factory import open_first
from kqueue.spark.source.record_reader import (
    DataLossHandler,
    RecordReader,
    data_loss_handler,
    logger,
    recreated_topic_text,
)
from kqueue.spark.source.split_planner import OffsetRange, rate_limited

LOOKS = 3
LOOK_PAUSE_S = 0.2
COMMIT_TIMEOUT_MS = 5_000
CHECKPOINT = "the checkpoint's offsets"


class MicroBatchPlanner:
    """The plan of one query run, on the driver.

    All methods raise DataLost and what the reader raises.
    Thread: one at a time.
    """

    def __init__(
        self,
        options: SourceOptions,
        reader: RecordReader | None = None,
        *,
        clock: Callable[[], float] = monotonic_s,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.options = options
        self._reader = reader or open_first(options)
        self._clock = clock
        self._pause = pause
        self._lost: DataLossHandler = data_loss_handler(options.fail_on_data_loss)
        self._initial: JsonObject | None = None
        self._target: Offsets | None = None
        self._seen: Offsets | None = None
        self._committed: Offsets = {}
        self._last_look_s = -math.inf  # what a query finds when it begins, or begins again, is not held back

    def close(self) -> None:
        self._reader.close()

    def initial(self) -> JsonObject:
        """Return where a new query begins. Raises: OptionError."""
        partitions = self._reader.find_partitions(self.options.topics, strict=True)
        offsets = starting_offsets(self.options, partitions, self._reader, self._lost)
        self._initial = _with_ids(offsets, self._ids(offsets))
        unread = self._reader.unread(partitions)
        if unread:
            events.SPARK_RECORDS_UNREAD.log(logger, "%s", what=unread)
        return self._initial

    def prepare_available_now(self) -> None:
        """Fix the current log ends as the final offsets of the query."""
        partitions = self._reader.find_partitions(self.options.topics, strict=False)
        self._target = self._reader.latest(partitions)

    def latest(self, start: JsonObject, limit: int | None) -> JsonObject:
        """Return the end offset of the next batch; `start` if there are no new records.

        Args:
            limit: maximum number of offsets; None: no limit.
        """
        known = ids_of(start, CHECKPOINT)
        begin, end, ids = self._available(from_json(start, CHECKPOINT), known)
        self._seen = dict(end)
        if limit is not None:
            end = rate_limited(begin, end, limit)
        latest = _with_ids(end, known | ids)
        is_same = plain(latest) == plain(start) and not _renewed(known, ids)
        is_first = start == self._initial and BEGIN not in start
        if not is_first and self._is_too_early(begin, end):
            return start
        self._last_look_s = self._clock()
        if is_first and (not is_same or not self.options.starting.is_fixed):
            return latest | {BEGIN: start}
        return start if is_same else latest

    def ranges(self, start: JsonObject, end: JsonObject) -> list[OffsetRange]:
        """Return the ranges of the batch between two offsets."""
        start = end.get(BEGIN, start)
        begin, until = from_json(start, CHECKPOINT), from_json(end, CHECKPOINT)
        ids, renewed = ids_of(end, CHECKPOINT), _renewed(ids_of(start, CHECKPOINT), ids_of(end, CHECKPOINT))
        earliest, elsewhere = self._reader.earliest(until), _renewed(ids, self._ids(until))
        ranges = []
        for topic_partition, stop in until.items():
            if topic_partition not in earliest:
                self._lost(f"{topic_partition} is gone, and was to be read up to {stop}")
                continue
            if topic_partition.topic in elsewhere:
                if begin.get(topic_partition) != stop:
                    self._lost(
                        f"{topic_partition} was to be read up to {stop}, but "
                        f"{recreated_topic_text(topic_partition.topic)}"
                    )
                continue
            first = begin.get(topic_partition, earliest[topic_partition])
            if first > stop or topic_partition.topic in renewed:  # `latest` reported a recreated topic
                first = earliest[topic_partition]
            if first < min(earliest[topic_partition], stop):
                gone = (
                    f"offsets {first} to {min(earliest[topic_partition], stop) - 1} were deleted before they were read"
                )
                self._lost(f"{topic_partition}: {gone}; its log begins at {earliest[topic_partition]}")
                first = min(earliest[topic_partition], stop)
            if first < stop:
                ranges.append(OffsetRange(*topic_partition, first, stop, ids.get(topic_partition.topic, "")))
        return ranges

    def splits(self, start: JsonObject, end: JsonObject) -> list[tuple[OffsetRange, ...]]:
        """Return `ranges` as splits for tasks."""
        return splits(self.options, self.ranges(start, end), self._reader)

    def report(self) -> JsonObject | None:
        """Return the log ends of the last look; None before the first."""
        return None if self._seen is None else to_json(self._seen)

    def done(self, end: JsonObject) -> None:
        """Commit the processed offsets for `groupId`. A failure is only logged."""
        group = self.options["groupId"]
        offsets = {
            topic_partition: offset
            for topic_partition, offset in from_json(end, CHECKPOINT).items()
            if self._committed.get(topic_partition) != offset
        }
        if group is None or not offsets:
            return
        client = self._reader.client
        assert client is not None, "options allow groupId there only"
        try:
            client.commit(group, offsets, timeout_ms=COMMIT_TIMEOUT_MS)
            self._committed |= offsets
        except ClientError as error:
            events.SPARK_PROGRESS_NOT_SHOWN.log(
                logger, "group %r does not show how far the query is: %s", group=group, error=error
            )

    # --- what there is

    def _ids(self, partitions: Iterable[TopicPartition]) -> dict[str, str]:
        return self._reader.topic_ids(dict.fromkeys(topic_partition.topic for topic_partition in partitions))

    def _available(self, start: Offsets, known: Mapping[str, str]) -> tuple[Offsets, Offsets, dict[str, str]]:
        """Return start offsets, end offsets and topic ids of all current partitions.

        Args:
            known: the topic ids at `start`.
        """
        partitions = self._reader.find_partitions(self.options.topics, strict=False)
        ids = self._ids(partitions)
        renewed = _renewed(known, ids)
        if renewed:
            self._lost(
                f"{' and '.join(recreated_topic_text(topic) for topic in sorted(renewed))}; some of the old "
                "one may not have been read"
            )
        start = {
            topic_partition: offset for topic_partition, offset in start.items() if topic_partition.topic not in renewed
        }
        gone = sorted(start.keys() - set(partitions))
        if gone:
            self._lost(f"{', '.join(map(str, gone))} is gone; some of it may not have been read")
        end = self._ends(
            [
                topic_partition
                for topic_partition in partitions
                if self._target is None or topic_partition in self._target
            ],
            start,
        )
        begin = {topic_partition: start[topic_partition] for topic_partition in end if topic_partition in start}
        new = end.keys() - begin.keys()
        for topic_partition, first in self._reader.earliest(new).items() if new else ():
            if first > 0:
                self._lost(f"{topic_partition} is new, and begins at {first} and not at 0")
            begin[topic_partition] = min(first, end[topic_partition])
        for topic_partition in [
            topic_partition for topic_partition in begin if begin[topic_partition] > end[topic_partition]
        ]:
            what = "it was deleted and recreated, or lost its end"
            self._lost(
                f"{topic_partition} ends at {end[topic_partition]} now, and had been read up to "
                f"{begin[topic_partition]}: {what}"
            )
            begin[topic_partition] = min(
                self._reader.earliest([topic_partition]).get(topic_partition, 0), end[topic_partition]
            )
        return begin, end, ids

    def _ends(self, partitions: Iterable[TopicPartition], start: Offsets) -> Offsets:
        """Return the log ends; repeat while one is below `start`.

        A new leader may report an old high watermark for a moment.
        """
        partitions = list(partitions)
        for look in range(LOOKS):
            end = self._reader.latest(partitions, start)
            if self._target is not None:
                end = {
                    topic_partition: min(offset, self._target[topic_partition])
                    for topic_partition, offset in end.items()
                }
            if look == LOOKS - 1 or all(
                start.get(topic_partition, 0) <= offset for topic_partition, offset in end.items()
            ):
                break
            self._pause(LOOK_PAUSE_S)
        return end

    def _is_too_early(self, begin: Offsets, end: Offsets) -> bool:
        least: int | None = self.options["minOffsetsPerTrigger"]
        waited_ms = (self._clock() - self._last_look_s) * 1_000
        if least is None or self._target is not None or waited_ms >= self.options["maxTriggerDelay"]:
            return False
        return sum(end[topic_partition] - begin[topic_partition] for topic_partition in end) < least


def _with_ids(offsets: Offsets, ids: Mapping[str, str]) -> JsonObject:
    known_ids = {
        topic: ids[topic] for topic in sorted({topic_partition.topic for topic_partition in offsets} & ids.keys())
    }
    return to_json(offsets) | ({IDS: known_ids} if known_ids else {})


def _renewed(known: Mapping[str, str], ids: Mapping[str, str]) -> set[str]:
    """Return the topics whose id differs from the known one."""
    return {topic for topic, text in ids.items() if known.get(topic, text) != text}
