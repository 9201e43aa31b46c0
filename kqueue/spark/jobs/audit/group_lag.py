"""The lag of consumer groups, from a broker or from the offsets in a folder. No pyspark."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kqueue.base.errors import MalformedMessage, StorageFailed
from kqueue.base.names import did_you_mean
from kqueue.client.topic_partition import TopicPartition
from kqueue.groups.log.records import read_key, read_offset
from kqueue.groups.log.schemas import OffsetCommitKey
from kqueue.log_tools.errors import NotALogFolder
from kqueue.log_tools.folder import LogFolder
from kqueue.spark.errors import OptionError
from kqueue.spark.offsets import Offsets
from kqueue.spark.source.broker_reader import BrokerReader
from kqueue.spark.source.file_reader import FileReader
from kqueue.spark.source.first_record import first_time
from kqueue.spark.source.record_reader import RecordReader

OFFSETS_TOPIC = "__consumer_offsets"
Committed = dict[str, Offsets]


class GroupLag(NamedTuple):
    """A group's lag in a partition. Its field names are part of `kqueue pipeline audit --json`.

    lag: offsets after the committed one, without deleted ones. deleted: offsets deleted before the
    group read them. ahead: how far the commit is beyond the log end (the topic was recreated).
    oldest_ms: timestamp of the first record not committed; None: no such record, or no timestamp.
    """

    group: str
    topic: str
    partition: int
    committed: int
    end: int
    lag: int
    deleted: int
    ahead: int
    oldest_ms: int | None

    def age_ms(self, now_ms: int) -> int | None:
        """Return the age of the first uncommitted record in ms; None: none, or no timestamp."""
        return None if self.oldest_ms is None else max(now_ms - self.oldest_ms, 0)


def group_lags(
    reader: RecordReader,
    groups: Sequence[str],
    earliest: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> list[GroupLag]:
    """Return the lag of each group in each of these partitions with a commit, sorted.

    Args:
        groups: empty: all groups with commits.
    Raises: OptionError: a named group has no commits in any topic. ClientError, StorageFailed.
    """
    lags = []
    for group, offsets in sorted(_committed(reader, groups).items()):
        for topic_partition, offset in sorted(offsets.items()):
            if topic_partition in ends:
                lags.append(
                    _lag(
                        reader, group, topic_partition, offset, earliest.get(topic_partition, 0), ends[topic_partition]
                    )
                )
    return lags


def check_groups(reader: RecordReader, groups: Sequence[str]) -> None:
    """Raise OptionError if a named group has no commits in any topic."""
    _committed(reader, groups)


def _committed(reader: RecordReader, groups: Sequence[str]) -> Committed:
    return _of_broker(reader, groups) if isinstance(reader, BrokerReader) else _of_folder(reader, groups)


def _lag(
    reader: RecordReader, group: str, topic_partition: TopicPartition, offset: int, start: int, end: int
) -> GroupLag:
    if (
        isinstance(reader, FileReader) and offset > end
    ):  # groups of a broker at work are in its last segment, which we leave alone
        with contextlib.suppress(NotALogFolder, StorageFailed, FileNotFoundError):
            end = max(end, LogFolder(reader.storage, f"{topic_partition.topic}-{topic_partition.partition}").end_offset)
    next_offset = max(offset, start)
    oldest = first_time(reader, topic_partition, next_offset, end) if next_offset < end else None
    return GroupLag(
        group,
        *topic_partition,
        offset,
        end,
        max(end - next_offset, 0),
        max(start - offset, 0),
        max(offset - end, 0),
        oldest,
    )


def _of_broker(reader: BrokerReader, groups: Sequence[str]) -> Committed:
    there = reader.client.groups()
    _check(groups, there, f"on {reader.client.options.bootstrap}")
    return {
        name: {
            topic_partition: one.offset for topic_partition, one in reader.client.committed(name, stable=False).items()
        }
        for name in groups or there
    }


def _check(groups: Iterable[str], there: Iterable[str], where: str) -> None:
    for name in groups:
        if name not in there:
            raise OptionError(f"there is no group {name!r} {where}{did_you_mean(name, there)}")


def _of_folder(reader: RecordReader, groups: Sequence[str]) -> Committed:
    """Return the offsets in the folder's `__consumer_offsets`; empty if it has none."""
    assert isinstance(reader, FileReader)
    committed: Committed = {}
    for entry in reader.storage.list(""):
        topic, _, number = entry.name.rpartition("-")
        if entry.is_folder and topic == OFFSETS_TOPIC and number.isdecimal():
            _read_into(committed, LogFolder(reader.storage, entry.name))
    _check(groups, committed, f"in {reader.storage.location}")
    return {name: committed[name] for name in groups or committed}


def _read_into(committed: Committed, log: LogFolder) -> None:
    for record in log.records(isolation="read_committed", on_damage="skip"):
        try:
            key = read_key(record.key) if record.key is not None else None
            if not isinstance(key, OffsetCommitKey):
                continue
            offsets, topic_partition = committed.setdefault(key.group, {}), TopicPartition(key.topic, key.partition)
            if record.value is None:
                offsets.pop(topic_partition, None)
            else:
                offsets[topic_partition] = read_offset(record.value).offset
        except MalformedMessage:
            continue
