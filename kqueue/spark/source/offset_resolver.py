"""Resolves offset options to offsets, and a batch query to ranges. No pyspark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kqueue.client.topic_partition import TopicPartition
from kqueue.spark.errors import OptionError
from kqueue.spark.offsets import EARLIEST, LATEST, OffsetBound, Offsets
from kqueue.spark.source.options import SourceOptions
from kqueue.spark.source.record_reader import DataLossHandler, RecordReader
from kqueue.spark.source.split_planner import OffsetRange, split_ranges

NAMED_MAX = 5


def resolve(
    bound: OffsetBound,
    partitions: Iterable[TopicPartition],
    reader: RecordReader,
    on_data_loss: DataLossHandler,
    *,
    none_is_latest: bool,
) -> Offsets:
    """Return the current offsets that a bound selects for exactly these partitions.

    Args:
        none_is_latest: a timestamp after the last record selects the log end; else it is an error.
    Raises: OptionError: the bound lists other partitions, or an offset beyond the log end.
        DataLost: an offset below the log start.
    """
    partitions = list(partitions)
    if bound.time is not None or bound.times is not None:
        return _at_times(bound, partitions, reader, none_is_latest=none_is_latest)
    if bound.everywhere is not None:
        return reader.earliest(partitions) if bound.everywhere == EARLIEST else reader.latest(partitions)
    assert bound.listed is not None
    _check_named(bound, bound.listed, partitions)
    earliest, latest = reader.earliest(partitions), reader.latest(partitions)
    words = {EARLIEST: earliest, LATEST: latest}
    offsets: Offsets = {}
    for topic_partition in partitions:
        asked = bound.listed[topic_partition]
        offsets[topic_partition] = words[asked][topic_partition] if asked in words else asked
        if offsets[topic_partition] < earliest[topic_partition]:
            on_data_loss(
                f"{bound.option} names offset {asked} of {topic_partition}, whose log begins at "
                f"{earliest[topic_partition]}"
            )
            offsets[topic_partition] = earliest[topic_partition]
        elif offsets[topic_partition] > latest[topic_partition]:
            raise OptionError(
                f"{bound.option} names offset {asked} of {topic_partition}, whose log ends at {latest[topic_partition]}"
            )
    return offsets


def _at_times(
    bound: OffsetBound, partitions: list[TopicPartition], reader: RecordReader, *, none_is_latest: bool
) -> Offsets:
    if bound.times is not None:
        _check_named(bound, bound.times, partitions)
        times = {topic_partition: bound.times[topic_partition] for topic_partition in partitions}
    else:
        assert bound.time is not None
        times = dict.fromkeys(partitions, bound.time)
    offsets = reader.offsets_for_times(times)
    late = [topic_partition for topic_partition in partitions if offsets.get(topic_partition) is None]
    if late and not none_is_latest:
        raise OptionError(
            f"{bound.option}: {_few(late)} has no record from {times[late[0]]} (ms since 1970) on; "
            "set startingOffsetsByTimestampStrategy to latest to begin at the end then"
        )
    return {
        topic_partition: offset for topic_partition, offset in offsets.items() if offset is not None
    } | reader.latest(late)


def _check_named(bound: OffsetBound, named: Mapping[TopicPartition, int], partitions: list[TopicPartition]) -> None:
    missing, unknown = sorted(set(partitions) - set(named)), sorted(set(named) - set(partitions))
    if missing:
        raise OptionError(f"{bound.option} leaves out {_few(missing)}: it has to name all partitions, and those only")
    if unknown:
        raise OptionError(f"{bound.option} names {_few(unknown)}, which is not there, or was not asked for")


def _few(partitions: list[TopicPartition]) -> str:
    words = ", ".join(map(str, partitions[:NAMED_MAX]))
    return words if len(partitions) <= NAMED_MAX else f"{words} and {len(partitions) - NAMED_MAX} more"


def starting_offsets(
    options: SourceOptions, partitions: Iterable[TopicPartition], reader: RecordReader, on_data_loss: DataLossHandler
) -> Offsets:
    """Return the offsets where a query begins. Raises: as `resolve`."""
    none_is_latest = options["startingOffsetsByTimestampStrategy"] == "latest"
    return resolve(options.starting, partitions, reader, on_data_loss, none_is_latest=none_is_latest)


def batch_ranges(options: SourceOptions, reader: RecordReader, on_data_loss: DataLossHandler) -> list[OffsetRange]:
    """Return the ranges of a batch query.

    Raises: as `resolve`. OptionError: a partition would end before it begins.
    """
    partitions = reader.find_partitions(options.topics, strict=True)
    ids = reader.topic_ids(dict.fromkeys(topic_partition.topic for topic_partition in partitions))
    begin = starting_offsets(options, partitions, reader, on_data_loss)
    end = resolve(options.ending, partitions, reader, on_data_loss, none_is_latest=True)
    ranges = []
    for topic_partition in partitions:
        if topic_partition not in begin or topic_partition not in end:
            on_data_loss(f"{topic_partition} was deleted while the query was planned")
            continue
        if end[topic_partition] < begin[topic_partition]:
            if options.ending.everywhere is None:
                raise OptionError(
                    f"{options.starting.option} and {options.ending.option} contradict each other: "
                    f"{topic_partition} would begin at {begin[topic_partition]} and end at {end[topic_partition]}"
                )
            on_data_loss(
                f"{topic_partition} was to be read from {begin[topic_partition]} on, but ends at "
                f"{end[topic_partition]} now"
            )
            continue
        ranges.append(
            OffsetRange(
                *topic_partition, begin[topic_partition], end[topic_partition], ids.get(topic_partition.topic, "")
            )
        )
    return ranges


def splits(options: SourceOptions, ranges: list[OffsetRange], reader: RecordReader) -> list[tuple[OffsetRange, ...]]:
    """Return the ranges as splits for tasks. Samples the row size of each topic's first range."""
    ranges = [one for one in reader.divide(ranges, options["splitBytes"]) if one.size > 0]
    samples: dict[str, float] = {}
    for one in ranges:
        if one.topic not in samples:
            samples[one.topic] = reader.row_bytes(one.topic_partition, one.start)
    return split_ranges(
        ranges,
        lambda topic_partition: samples[topic_partition.topic],
        split_bytes=options["splitBytes"],
        splits_min=options["minPartitions"],
        rows_max=options["maxRecordsPerPartition"],
    )
