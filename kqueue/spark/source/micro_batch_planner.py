"""Where a stream stands: from one batch's end to the next one's. Knows no Spark; offsets come and
go as parsed JSON.

Spark logs a batch's end before it runs the batch, and asks anew where a query begins if it was
stopped before its first batch was done. What `latest` meant then is past by now, so the end of a
first batch has its beginning with it (`offsets.BEGIN`); and where a query does not begin at fixed
offsets, its first batch comes at once, empty perhaps, so that the place where it began is in the
checkpoint.

Offsets of a topic mean nothing in another one that got its name, even where that has as many
records. So they have the topics' ids with them (`offsets.IDS`), where brokers or folders say these;
what has none, an older checkpoint for instance, is compared by offsets alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping

from kqueue.client.errors import ClientError
from kqueue.client.topic_partition import TopicPartition
from kqueue.spark.source.offset_resolver import splits, starting
from kqueue.spark.source.offsets import BEGIN, IDS, JsonObject, Offsets, from_json, ids_of, plain, to_json
from kqueue.spark.source.options import SourceOptions
from kqueue.spark.source.record_reader import (
    DataLossHandler,
    RecordReader,
    data_loss_handler,
    logger,
    open_reader,
    recreated_topic,
)
from kqueue.spark.source.split_planner import OffsetRange, limited

LOOKS = 3
LOOK_PAUSE_S = 0.2
COMMIT_TIMEOUT_MS = 5_000
CHECKPOINT = "the checkpoint's offsets"


class MicroBatchPlanner:
    """Of one run of a query, on the driver. One thread at a time. Raises, all methods: as the way
    does; DataLost.
    """

    def __init__(
        self,
        options: SourceOptions,
        reader: RecordReader | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.options = options
        self._way = reader or open_reader(options)
        self._clock = clock
        self._pause = pause
        self._lost: DataLossHandler = data_loss_handler(options.fail_on_data_loss)
        self._initial: JsonObject | None = None
        self._target: Offsets | None = None
        self._seen: Offsets | None = None
        self._committed: Offsets = {}
        self._last_look_s = -math.inf  # what a query finds when it begins, or begins again, is not held back

    def close(self) -> None:
        self._way.close()

    def initial(self) -> JsonObject:
        """Where a new query begins. Raises: OptionError."""
        partitions = self._way.find(self.options.topics, strict=True)
        found = starting(self.options, partitions, self._way, self._lost)
        self._initial = _with_ids(found, self._ids(found))
        return self._initial

    def prepare_available_now(self) -> None:
        """From now on, nothing comes that is not there yet."""
        partitions = self._way.find(self.options.topics, strict=False)
        self._target = self._way.latest(partitions)

    def latest(self, start: JsonObject, limit: int | None) -> JsonObject:
        """Where the next batch ends, `start` itself if there is nothing new. Args: limit: offsets
        at most, None: all there is.
        """
        known = ids_of(start, CHECKPOINT)
        begin, end, ids = self._available(from_json(start, CHECKPOINT), known)
        self._seen = dict(end)
        if limit is not None:
            end = limited(begin, end, limit)
        found = _with_ids(end, known | ids)
        is_same = plain(found) == plain(start) and not _renewed(known, ids)
        is_first = start == self._initial and BEGIN not in start
        if not is_first and self._is_too_early(begin, end):
            return start
        self._last_look_s = self._clock()
        if is_first and (not is_same or not self.options.starting.is_fixed):
            return found | {BEGIN: start}
        return start if is_same else found

    def ranges(self, start: JsonObject, end: JsonObject) -> list[OffsetRange]:
        """What the batch between two of these reads."""
        start = end.get(BEGIN, start)
        begin, until = from_json(start, CHECKPOINT), from_json(end, CHECKPOINT)
        ids, renewed = ids_of(end, CHECKPOINT), _renewed(ids_of(start, CHECKPOINT), ids_of(end, CHECKPOINT))
        earliest, elsewhere = self._way.earliest(until), _renewed(ids, self._ids(until))
        found = []
        for topic_partition, stop in until.items():
            if topic_partition not in earliest:
                self._lost(f"{topic_partition} is gone, and was to be read up to {stop}")
                continue
            if topic_partition.topic in elsewhere:
                if begin.get(topic_partition) != stop:
                    self._lost(
                        f"{topic_partition} was to be read up to {stop}, but {recreated_topic(topic_partition.topic)}"
                    )
                continue
            first = begin.get(topic_partition, earliest[topic_partition])
            if first > stop or topic_partition.topic in renewed:  # `latest` told that the log had been made anew
                first = earliest[topic_partition]
            if first < min(earliest[topic_partition], stop):
                gone = (
                    f"offsets {first} to {min(earliest[topic_partition], stop) - 1} were deleted before they were read"
                )
                self._lost(f"{topic_partition}: {gone}; its log begins at {earliest[topic_partition]}")
                first = min(earliest[topic_partition], stop)
            if first < stop:
                found.append(OffsetRange(*topic_partition, first, stop, ids.get(topic_partition.topic, "")))
        return found

    def splits(self, start: JsonObject, end: JsonObject) -> list[tuple[OffsetRange, ...]]:
        """`ranges`, as tasks take them."""
        return splits(self.options, self.ranges(start, end), self._way)

    def report(self) -> JsonObject | None:
        """How far the data went when we last looked."""
        return None if self._seen is None else to_json(self._seen)

    def done(self, end: JsonObject) -> None:
        """Commit for `groupId` what has been processed. A failure is told in the log, and does no
        harm.
        """
        group = self.options["groupId"]
        offsets = {
            topic_partition: offset
            for topic_partition, offset in from_json(end, CHECKPOINT).items()
            if self._committed.get(topic_partition) != offset
        }
        if group is None or not offsets:
            return
        from kqueue.spark.source.broker_reader import BrokerReader

        assert isinstance(self._way, BrokerReader), "options allow groupId there only"
        try:
            self._way.client.commit(group, offsets, timeout_ms=COMMIT_TIMEOUT_MS)
            self._committed |= offsets
        except ClientError as error:
            logger.warning("group %r does not show how far the query is: %s", group, error)

    # --- what there is

    def _ids(self, partitions: Iterable[TopicPartition]) -> dict[str, str]:
        return self._way.ids(dict.fromkeys(topic_partition.topic for topic_partition in partitions))

    def _available(self, start: Offsets, known: Mapping[str, str]) -> tuple[Offsets, Offsets, dict[str, str]]:
        """For each partition that counts now: where it goes on, and its end; and the topics' ids.
        Args: known: those at `start`.
        """
        partitions = self._way.find(self.options.topics, strict=False)
        ids = self._ids(partitions)
        renewed = _renewed(known, ids)
        if renewed:
            self._lost(
                f"{' and '.join(recreated_topic(topic) for topic in sorted(renewed))}; some of the old one may not have been read"
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
        for topic_partition, first in self._way.earliest(new).items() if new else ():
            if first > 0:
                self._lost(f"{topic_partition} is new, and begins at {first} and not at 0")
            begin[topic_partition] = min(first, end[topic_partition])
        for topic_partition in [
            topic_partition for topic_partition in begin if begin[topic_partition] > end[topic_partition]
        ]:
            what = "it was deleted and made anew, or lost its end"
            self._lost(
                f"{topic_partition} ends at {end[topic_partition]} now, and had been read up to {begin[topic_partition]}: {what}"
            )
            begin[topic_partition] = min(
                self._way.earliest([topic_partition]).get(topic_partition, 0), end[topic_partition]
            )
        return begin, end, ids

    def _ends(self, partitions: Iterable[TopicPartition], start: Offsets) -> Offsets:
        """A broker that has just become the leader may not know yet how far it can be read, so what
        went back is looked at again.
        """
        partitions = list(partitions)
        for look in range(LOOKS):
            end = self._way.latest(partitions, start)
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
    told = {topic: ids[topic] for topic in sorted({topic_partition.topic for topic_partition in offsets} & ids.keys())}
    return to_json(offsets) | ({IDS: told} if told else {})


def _renewed(known: Mapping[str, str], ids: Mapping[str, str]) -> set[str]:
    """The topics that have other ids than were known."""
    return {topic for topic, text in ids.items() if known.get(topic, text) != text}
