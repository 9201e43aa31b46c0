"""From what options say to offsets, and to the ranges of a batch query. Knows no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kqueue.client.topic_partition import TopicPartition
from kqueue.spark.errors import OptionError
from kqueue.spark.source.offsets import EARLIEST, LATEST, OffsetBound, Offsets
from kqueue.spark.source.options import SourceOptions
from kqueue.spark.source.record_reader import DataLossHandler, RecordReader
from kqueue.spark.source.split_planner import OffsetRange, split

NAMED_MAX = 5


def resolve(
    bound: OffsetBound,
    places: Iterable[TopicPartition],
    way: RecordReader,
    lost: DataLossHandler,
    *,
    none_is_latest: bool,
) -> Offsets:
    """The offsets that a bound means now, for just these partitions.

    Args: none_is_latest: a time that no record has reached is the log's end; else it is an error.
    Raises: OptionError: it lists other partitions than there are, or an offset that a log does not
    have yet. DataLost: or no longer has.
    """
    places = list(places)
    if bound.time is not None or bound.times is not None:
        return _at_times(bound, places, way, none_is_latest=none_is_latest)
    if bound.everywhere is not None:
        return way.earliest(places) if bound.everywhere == EARLIEST else way.latest(places)
    assert bound.listed is not None
    _check_named(bound, bound.listed, places)
    earliest, latest = way.earliest(places), way.latest(places)
    words = {EARLIEST: earliest, LATEST: latest}
    found: Offsets = {}
    for place in places:
        asked = bound.listed[place]
        found[place] = words[asked][place] if asked in words else asked
        if found[place] < earliest[place]:
            lost(f"{bound.option} names offset {asked} of {place}, whose log begins at {earliest[place]}")
            found[place] = earliest[place]
        elif found[place] > latest[place]:
            raise OptionError(f"{bound.option} names offset {asked} of {place}, whose log ends at {latest[place]}")
    return found


def _at_times(bound: OffsetBound, places: list[TopicPartition], way: RecordReader, *, none_is_latest: bool) -> Offsets:
    if bound.times is not None:
        _check_named(bound, bound.times, places)
        times = {place: bound.times[place] for place in places}
    else:
        assert bound.time is not None
        times = dict.fromkeys(places, bound.time)
    found = way.at_times(times)
    late = [place for place in places if found.get(place) is None]
    if late and not none_is_latest:
        raise OptionError(
            f"{bound.option}: {_few(late)} has no record from {times[late[0]]} (ms since 1970) on; "
            "set startingOffsetsByTimestampStrategy to latest to begin at the end then"
        )
    return {place: offset for place, offset in found.items() if offset is not None} | way.latest(late)


def _check_named(bound: OffsetBound, named: Mapping[TopicPartition, int], places: list[TopicPartition]) -> None:
    missing, unknown = sorted(set(places) - set(named)), sorted(set(named) - set(places))
    if missing:
        raise OptionError(f"{bound.option} leaves out {_few(missing)}: it has to name all partitions, and those only")
    if unknown:
        raise OptionError(f"{bound.option} names {_few(unknown)}, which is not there, or was not asked for")


def _few(places: list[TopicPartition]) -> str:
    words = ", ".join(map(str, places[:NAMED_MAX]))
    return words if len(places) <= NAMED_MAX else f"{words} and {len(places) - NAMED_MAX} more"


def starting(
    options: SourceOptions, places: Iterable[TopicPartition], way: RecordReader, lost: DataLossHandler
) -> Offsets:
    """Where a query begins. Raises: as `resolve`."""
    none_is_latest = options["startingOffsetsByTimestampStrategy"] == "latest"
    return resolve(options.starting, places, way, lost, none_is_latest=none_is_latest)


def batch_ranges(options: SourceOptions, way: RecordReader, lost: DataLossHandler) -> list[OffsetRange]:
    """What a batch query reads, as things are now. Raises: as `resolve`; OptionError: a partition
    would end before it begins.
    """
    places = way.find(options.topics, strict=True)
    ids = way.ids(dict.fromkeys(place.topic for place in places))
    begin = starting(options, places, way, lost)
    end = resolve(options.ending, places, way, lost, none_is_latest=True)
    found = []
    for place in places:
        if place not in begin or place not in end:
            lost(f"{place} was deleted while the query was planned")
            continue
        if end[place] < begin[place]:
            if options.ending.everywhere is None:
                raise OptionError(
                    f"{options.starting.option} and {options.ending.option} contradict each other: "
                    f"{place} would begin at {begin[place]} and end at {end[place]}"
                )
            lost(f"{place} was to be read from {begin[place]} on, but ends at {end[place]} now")
            continue
        found.append(OffsetRange(*place, begin[place], end[place], ids.get(place.topic, "")))
    return found


def splits(options: SourceOptions, ranges: list[OffsetRange], way: RecordReader) -> list[tuple[OffsetRange, ...]]:
    """The ranges as tasks take them. Asks for a sample of each topic's first range."""
    ranges = [one for one in ranges if one.size > 0]
    samples: dict[str, float] = {}
    for one in ranges:
        if one.topic not in samples:
            samples[one.topic] = way.row_bytes(one.place, one.start)
    return split(
        ranges,
        lambda place: samples[place.topic],
        split_bytes=options["splitBytes"],
        splits_min=options["minPartitions"],
        rows_max=options["maxRecordsPerPartition"],
    )
