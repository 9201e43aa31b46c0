"""Groups sealed segments that are rewritten into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kqueue.log.compaction.model import CompactionConfig, SegmentSource
from kqueue.log.formats.filenames import INDEX, TIMEINDEX, file_name
from kqueue.log.formats.offset_index import RELATIVE_OFFSET_MAX


def group_sources(
    sources: Sequence[SegmentSource], sizes: Mapping[str, int], config: CompactionConfig
) -> list[list[SegmentSource]]:
    """Group neighbouring segments whose log, indexes and offsets fit into one segment.

    Args: sizes: of the folder's files, in bytes, by name.
    Returns: each segment in one group, however large it is.
    Source: Kafka Cleaner.groupSegmentsBySize.
    """
    groups: list[list[SegmentSource]] = []
    room = (0, 0, 0)
    for source in sources:
        needs = (
            source.size,
            sizes.get(file_name(source.base, INDEX), 0),
            sizes.get(file_name(source.base, TIMEINDEX), 0),
        )
        fits = all(need <= left for need, left in zip(needs, room, strict=True))
        if groups and fits and (source.size == 0 or source.end_offset - 1 - groups[-1][0].base <= RELATIVE_OFFSET_MAX):
            groups[-1].append(source)
        else:
            groups.append([source])
            room = (config.segment_bytes, config.segment_index_bytes, config.segment_index_bytes)
        log, index, timeindex = room
        room = (log - needs[0], index - needs[1], timeindex - needs[2])
    return groups
